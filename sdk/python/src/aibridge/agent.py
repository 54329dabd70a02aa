"""The side that serves: an agent with its skills."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any, Dict, List, Mapping, Optional, Tuple

from . import credentials, envelope, errors
from ._mqtt import Message
from .calling import backoff
from .capability import Declare, Skill, params_of
from .client import Client
from .desired import DeclareDesired, Follower
from .invocation import Invocation
from .jobs import Jobs
from .memory import Memory

log = logging.getLogger("aibridge")

_CLOSE_PATIENCE = 5.0
_DEFAULT_TIMEOUT = 30.0
_DEFAULT_HEARTBEAT = 30.0


class Agent:
    """A program that serves skills. Functions become capabilities of a skill with the
    agent's own id by :meth:`capability`; :meth:`skill` adds further skills.

        agent = Agent("led-strip")

        @agent.capability(idempotent=True)
        def set_brightness(percent: Annotated[int, Range(0, 100)]) -> None:
            "Set the brightness of the whole strip."
            strip.brightness = percent / 100

        agent.run()

    workers is how many calls run at a time, waiting how many more may wait; others
    are refused with 4008. memory is a folder in which the calls are remembered over
    restarts, so that none runs twice; by default AIBRIDGE_STATE, and without it calls
    are remembered as long as the program runs. The other arguments are those of
    :class:`Client`, which ``client`` is.
    """

    def __init__(
        self,
        agent_id: str,
        *,
        name: str = "",
        description: str = "",
        version: str = "1.0.0",
        url: Optional[str] = None,
        credential: Optional[credentials.Credential] = None,
        ca: Optional[credentials.PathLike] = None,
        workers: int = 8,
        waiting: int = 128,
        memory: Optional[credentials.PathLike] = None,
        space: Optional[str] = None,
    ) -> None:
        self.id = agent_id
        self.name = name
        self._space = space
        self.client = Client(url, credential=credential, client_id=agent_id, ca=ca)
        self._skills: Dict[str, Skill] = {}
        self._own = Skill(agent_id, name=name, description=description, version=version)
        folder = memory or os.environ.get("AIBRIDGE_STATE")
        self._memory = Memory(folder, agent_id) if folder else None
        self._jobs = Jobs(self.client, agent_id, workers, waiting, self._memory)
        self._follower = Follower(self)
        self._interval = _DEFAULT_HEARTBEAT
        self._closing = threading.Event()
        self._registered = threading.Event()
        self._refusal: Optional[errors.BridgeError] = None
        self._announcing = threading.Lock()
        self._started = False
        self.client._own_filters = self._filters
        self.client._intercept = self._intercept
        self.client._on_ready.append(self._connected)

    @property
    def capability(self) -> Declare:
        """Make a function a capability of the agent's own skill; see :class:`Declare`."""
        self._skills[self._own.id] = self._own
        return self._own.capability

    @property
    def desired(self) -> DeclareDesired:
        """Make a function take over the desired state of the agent's own skill; see
        :class:`DeclareDesired`."""
        self._skills[self._own.id] = self._own
        return self._own.desired

    def report(self, state: Mapping[str, Any], skill_id: Optional[str] = None) -> None:
        """Say what state a skill has, the agent's own unless told, by a merge patch (RFC
        7386) of what was reported before: members are set, objects are merged, None
        removes. It returns when that is stored."""
        self.client.call("state.report", self._about({"skill_id": skill_id or self._own.id, "state": dict(state)}))

    def skill(self, skill_id: str, *, name: str = "", description: str = "", version: str = "1.0.0") -> Skill:
        """A further skill of the agent."""
        if skill_id in self._skills or skill_id == self._own.id:
            raise TypeError(f"the agent has the skill {skill_id} already")
        made = Skill(skill_id, name=name, description=description, version=version)
        self._skills[skill_id] = made
        return made

    def start(self, timeout: float = 60.0) -> None:
        """Connect and register. From here on calls are served on threads of their own,
        and everything stands again after a lost connection. Refusals are errors."""
        if not any(s.capabilities for s in self._skills.values()):
            raise TypeError("the agent has no capability: decorate a function with @agent.capability")
        self._started = True
        self.client.connect(timeout)
        self._registered.wait(timeout)
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            self.close()
            raise refusal
        if not self._registered.is_set():
            raise errors.TargetUnavailable("the bridge did not register the agent in time")
        threading.Thread(target=self._beat, name="aibridge-heartbeat", daemon=True).start()

    def run(self) -> None:
        """Serve until the program is asked to end (SIGTERM, Ctrl-C), then leave in order.
        An error of the bridge that will not pass ends the program with its text."""
        ended = threading.Event()
        if threading.current_thread() is threading.main_thread():  # others may not
            for s in (signal.SIGTERM, signal.SIGINT):
                signal.signal(s, lambda *_: ended.set())
        try:
            self._serve_until(ended)
        except errors.BridgeError as e:
            sys.exit(f"{self.id}: {e}")
        finally:
            self.close()

    def _serve_until(self, ended: threading.Event) -> None:
        starting = threading.Thread(target=self._start_quietly, daemon=True)
        starting.start()
        while not ended.wait(0.2):
            if self._refusal is not None:
                raise self._refusal
            if self.client._ended is not None:
                raise self.client._ended

    def _start_quietly(self) -> None:
        """start, for a program that goes on trying as long as it runs."""
        while not self._closing.is_set():
            try:
                self.start()
                return print(f"serving {self.id}", flush=True)
            except errors.TargetUnavailable as e:
                log.warning("%s", e)
            except errors.BridgeError as e:
                self._refusal = e
                return
            except TypeError as e:
                self._refusal = errors.Internal(str(e))
                return

    def close(self) -> None:
        """Stop serving: calls at work are stopped and answered with 5002. The agent
        stays registered and goes offline."""
        if self._closing.is_set():
            return
        self._closing.set()
        if not self._jobs.close(_CLOSE_PATIENCE):
            log.warning("a handler does not end")
        self.client.close()
        if self._memory is not None:
            self._memory.close()

    def __enter__(self) -> "Agent":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Registration and presence.

    @property
    def _request_topic(self) -> str:
        return f"{self.client.root}/agent/{self.id}/request"

    def _filters(self) -> List[Tuple[str, int]]:
        return [(self._request_topic, 1)] if self._started else []

    def _connected(self) -> None:
        if self._started:
            self._jobs.resend()
            threading.Thread(target=self._announce, name="aibridge-register", daemon=True).start()

    def _announce(self) -> None:
        """Register the agent and its skills, until it is done or refused: the bridge may
        not be the one it was."""
        link = self.client._ready_link()
        with self._announcing:
            attempt = 0
            while not self._closing.is_set() and link is not None and not link.lost.is_set():
                attempt += 1
                try:
                    self._register()
                    self._follower.follow()
                    self._registered.set()
                    return
                except errors.BridgeError as e:
                    if e.code < "4" and not self._registered.is_set():
                        self._refusal = e
                        self._registered.set()
                        return
                    log.warning("the agent is not registered: %s", e)
                    if e.code < "4":
                        return
                self._closing.wait(backoff(attempt, 30.0))

    def _register(self) -> None:
        params: Dict[str, Any] = self._about(
            {"type": "end_agent", "skills": [s.describe() for s in self._skills.values() if s.capabilities]}
        )
        if self.name:
            params["name"] = self.name
        self._take_interval(self.client.call("agent.register", params))

    def _about(self, params: Dict[str, Any]) -> Dict[str, Any]:
        params["agent_id"] = self.id
        if self._space:
            params["space_id"] = self._space
        return params

    def _take_interval(self, answer: Any) -> None:
        interval = answer.get("heartbeat_interval") if isinstance(answer, dict) else None
        if isinstance(interval, (int, float)) and interval > 0:
            self._interval = min(float(interval), 3600.0)

    def _beat(self) -> None:
        """Tell the bridge that the agent is alive. One that the bridge has forgotten is
        registered anew."""
        while not self._closing.wait(self._interval):
            try:
                self.client.call("agent.heartbeat", self._about({}), timeout=max(self._interval, 1.0))
            except errors.NotFound:
                self._announce()
            except errors.BridgeError as e:
                if not self._closing.is_set():
                    log.warning("the heartbeat failed: %s", e)

    # Requests, on the network thread.

    def _intercept(self, m: Message) -> bool:
        if m.topic != self._request_topic:
            return False
        try:
            self._receive(m)
        except Exception:
            log.exception("a request could not be read")
        return True

    def _receive(self, m: Message) -> None:
        request = envelope.decode(m.payload)
        if request is None or request.get("type", "request") != "request":
            return
        id = request.get("id")
        if not isinstance(id, str) or not 0 < len(id) <= 256:
            return
        metadata = request.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        trace = metadata.get("trace_id")
        trace = trace if isinstance(trace, str) else None
        try:
            self._dispatch(request, id, trace, metadata, m)
        except errors.BridgeError as e:
            self._jobs.refuse(id, trace, m.correlation, e)

    def _dispatch(self, request: Dict[str, Any], id: str, trace: Optional[str], metadata: Dict[str, Any], m: Message) -> None:
        command, params = request.get("command"), request.get("params")
        if command not in ("skill.invoke", "task.cancel", "task.get"):
            raise errors.UnknownCommand(f"this agent does not know the command {command}")
        if not isinstance(params, dict):
            raise errors.InvalidParameter.at("params", "must be an object")
        if command == "skill.invoke":
            return self._invoke(id, trace, metadata, params, m)
        task = params.get("task_id")
        if command == "task.cancel":
            if isinstance(task, str):
                self._jobs.cancel(task, str(params.get("reason") or ""))
            return
        if not isinstance(task, str) or not task:
            raise errors.InvalidParameter.at("task_id", "must be the id of a call")
        self._jobs.recall(task, id, trace, m.correlation)

    def _invoke(self, id: str, trace: Optional[str], metadata: Dict[str, Any], params: Dict[str, Any], m: Message) -> None:
        skill_id, capability_id = params.get("skill_id"), params.get("capability_id")
        skill = self._skills.get(skill_id) if isinstance(skill_id, str) else None
        if skill is None:
            raise errors.NotFound(f"this agent does not serve the skill {skill_id}")
        capability = skill.capabilities.get(capability_id) if isinstance(capability_id, str) else None
        if capability is None:
            raise errors.NotFound(f"the skill {skill_id} has no capability {capability_id}")
        invocation = Invocation(
            id,
            skill.id,
            capability.id,
            trace,
            m.property("caller"),
            str(metadata.get("priority") or "medium"),
            _seconds(metadata.get("timeout")),
        )
        self._jobs.start(capability, params_of(params), invocation, m.correlation)


def _seconds(timeout: Any) -> float:
    """The time left for a call, from milliseconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or timeout <= 0:
        return _DEFAULT_TIMEOUT
    return float(timeout) / 1000
