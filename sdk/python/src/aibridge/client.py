"""The side that calls: commands, events, channels."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import secrets
import ssl
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from . import _mqtt, credentials, envelope, errors
from ._mqtt import Connection, Lost, Message, Refused
from .calling import Call, OnEvent, OnRevision, backoff, current_context
from .following import follow
from .groups import Approvals, Channel, Group, json_handler
from .subscription import Subscription, Subscriptions

log = logging.getLogger("aibridge")

MAX_TIMEOUT = 600.0


class Client:
    """A connection to a bridge that restores itself.

    url is mqtt://, mqtts://, ws:// or wss://, by default AIBRIDGE_URL or the bridge
    on this machine. What the client shows is credential, by default what the
    environment names: AIBRIDGE_API_KEY, AIBRIDGE_TOKEN, AIBRIDGE_TOKEN_FILE,
    AIBRIDGE_CERT_FOLDER, or AIBRIDGE_CERT with AIBRIDGE_KEY. ca is a file with the
    authority of the bridge, by default AIBRIDGE_CA or the one beside the certificate.

    All methods may be used by many threads at a time.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        *,
        credential: Optional[credentials.Credential] = None,
        client_id: Optional[str] = None,
        ca: Optional[credentials.PathLike] = None,
        root: Optional[str] = None,
        keepalive: int = 30,
    ) -> None:
        self._address = _mqtt.parse_address(url or os.environ.get("AIBRIDGE_URL") or "mqtt://127.0.0.1:1883")
        self._credential = credential if credential is not None else credentials.from_environment(os.environ)
        beside = self._credential.ca if isinstance(self._credential, credentials.Certificate) else None
        self._ca = ca or os.environ.get("AIBRIDGE_CA") or beside
        self.id = client_id or "client-" + secrets.token_hex(8)
        self.root = root or "aibridge"
        self._learn_root = root is None
        self._keepalive = keepalive

        self._changed = threading.Condition()
        self._link: Optional[Connection] = None  # once its subscriptions stand
        self._ended: Optional[errors.BridgeError] = None
        self._refusal: Optional[errors.BridgeError] = None
        self._thread: Optional[threading.Thread] = None
        self._closing = threading.Event()
        self._wake = threading.Event()  # the connection is lost, or the client closes
        self._waiters: Dict[str, "queue.SimpleQueue[Tuple[str, Any]]"] = {}
        self._subscriptions = Subscriptions(self)
        self._on_ready: List[Callable[[], None]] = []  # what to do on every new connection
        self._own_filters: Callable[[], List[Tuple[str, int]]] = lambda: []
        self._intercept: Callable[[Message], bool] = lambda m: False

    def __enter__(self) -> "Client":
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, timeout: float = 30.0) -> None:
        """Connect, and stay so until :meth:`close`. A refusal that will not pass, such
        as a wrong key, and time that runs out are errors. Calls connect by themselves."""
        self._start()
        self._online(time.monotonic() + timeout)

    def close(self) -> None:
        """End the connection. Nothing works afterwards."""
        self._finish(errors.InvalidState("the client is closed"))
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(10.0)
        self._subscriptions.close()

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and self._ended is None:
                self._thread = threading.Thread(target=self._run, name="aibridge-connection", daemon=True)
                self._thread.start()

    def _finish(self, why: errors.BridgeError) -> None:
        with self._changed:
            if self._ended is None:
                self._ended = why
            self._changed.notify_all()
        self._closing.set()
        self._wake.set()
        self._tell_waiters()

    # The connection's own thread.

    def _run(self) -> None:
        established, attempt = False, 0
        while not self._closing.is_set():
            try:
                link = self._dial()
            except Refused as refused:
                self._refusal = refused.error
                log.info("connection to the bridge failed: %s", refused.error)
                if refused.final and not established:
                    return self._finish(refused.error)
                attempt += 1
                self._closing.wait(backoff(attempt, 30.0))
                continue
            established, attempt = True, 0
            again_at_once = self._hold(link)
            with self._changed:
                self._link = None
            link.close()
            self._tell_waiters(link)
            if link.reason == _mqtt.TAKEN_OVER:
                return self._finish(errors.InvalidState(f"another client uses the id {self.id}"))
            if not again_at_once and not self._closing.is_set():
                log.info("connection to the bridge lost")
                self._closing.wait(backoff(1, 30.0))

    def _dial(self) -> Connection:
        """A connection whose subscriptions stand."""
        try:
            login = self._credential.login()
            tls = self._tls() if self._address.tls else None
        except (OSError, ValueError) as e:
            raise Refused(errors.CredentialInvalid(f"the credential cannot be read: {e}"), final=False) from e
        self._wake.clear()
        link = Connection(self._address, self.id, login, tls, self._keepalive, self._received, self._wake.set)
        try:
            self._take_root(link.response_info)
            wanted = [(self.response_topic, 1), *self._own_filters()]
            refused = [f for (f, _), code in zip(wanted, link.subscribe(wanted)) if code >= 0x80]
            if refused:
                raise Refused(errors.PermissionDenied(f"the bridge refuses the subscription to {refused[0]}"), final=False)
            self._subscriptions.restore(link)
        except Lost as e:
            link.close(wait=False)
            raise Refused(errors.TargetUnavailable(str(e)), final=False) from e
        except BaseException:
            link.close(wait=False)
            raise
        with self._changed:
            self._link = link
            self._changed.notify_all()
        for announce in self._on_ready:
            announce()
        return link

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._ca) if self._ca else None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._credential.prepare(context)
        return context

    def _take_root(self, response_info: str) -> None:
        """The first level of all topics is what the bridge says of the response topic."""
        root, _, rest = response_info.partition("/")
        if self._learn_root and rest == f"client/{self.id}/response":
            self.root = root

    def _hold(self, link: Connection) -> bool:
        """Wait until the connection is lost, and renew the credential meanwhile. True
        means that a newer credential waits to be shown."""
        while not self._closing.is_set() and not link.lost.is_set():
            if self._wake.wait(self._due()):
                return False
            try:
                if self._credential.renew(self):
                    return True
            except Exception as e:  # whatever a source of tokens raises
                log.warning("the credential is not renewed: %s", e)
        return False

    def _due(self) -> float:
        try:
            due = self._credential.due()
        except (OSError, ValueError, errors.BridgeError) as e:
            log.warning("the credential cannot be read: %s", e)
            due = None
        return 3600.0 if due is None else due

    def _online(self, deadline: float) -> Connection:
        """The connection, once it is ready for use."""
        self._start()
        with self._changed:
            while True:
                if self._ended is not None:
                    raise self._ended
                if self._link is not None and not self._link.lost.is_set():
                    return self._link
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._refusal or errors.TargetUnavailable("not connected to the bridge")
                self._changed.wait(min(left, 0.05 if self._link is not None else left))

    def _ready_link(self) -> Optional[Connection]:
        """The connection if it is ready for use now."""
        with self._changed:
            link = self._link
        return None if link is None or link.lost.is_set() else link

    # Messages.

    @property
    def response_topic(self) -> str:
        return f"{self.root}/client/{self.id}/response"

    def _received(self, m: Message) -> None:
        """Take a message, on the network thread."""
        if m.topic == self.response_topic:
            self._answered(m)
        elif not self._intercept(m):
            self._subscriptions.deliver(m)

    def _answered(self, m: Message) -> None:
        answer = envelope.decode(m.payload)
        if answer is None:
            return
        id = m.correlation.decode("utf-8", "replace") if m.correlation else str(answer.get("id"))
        waiter = self._waiters.get(id)
        if waiter is not None:
            waiter.put(("event" if answer.get("type") == "event" else "response", answer))

    def _tell_waiters(self, lost: Optional[Connection] = None) -> None:
        """Tell those who wait for answers which connection is lost, None for all there will be."""
        for waiter in list(self._waiters.values()):
            waiter.put(("lost", lost))

    def publish(self, topic: str, payload: Any = b"", *, qos: int = 1, retain: bool = False, timeout: float = 30.0) -> None:
        """Publish bytes, a text, or anything else as JSON. With QoS 1 it returns when
        the bridge has it; with paho 1.6 a refusal is not told."""
        body = payload if isinstance(payload, bytes) else payload.encode() if isinstance(payload, str) else envelope.encode(payload)
        deadline = time.monotonic() + timeout
        outcome: "queue.SimpleQueue[Optional[Exception]]" = queue.SimpleQueue()
        self._online(deadline).publish(Message(topic, body, qos, retain), outcome.put)
        try:
            error = outcome.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            raise errors.TimedOut("the bridge did not acknowledge the message in time") from None
        if isinstance(error, Lost):
            raise errors.OutcomeUnknown("the connection was lost before the message was acknowledged")
        if error is not None:
            raise error

    def subscribe(self, filter: str, handle: Optional[Callable[[Message], None]] = None, *, qos: int = 1) -> Subscription:
        """Hear messages: by handle, one at a time on a thread of its own, or by
        iterating over the subscription. It lasts over reconnections."""
        return self._subscriptions.open(filter, handle, qos)

    # Commands.

    def call(
        self,
        command: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        timeout: float = 30.0,
        id: Optional[str] = None,
        on_event: Optional[OnEvent] = None,
        priority: Optional[str] = None,
        trace: Optional[str] = None,
        retry: bool = True,
        min_revision: Optional[int] = None,
        on_revision: Optional[OnRevision] = None,
    ) -> Any:
        """Run a command of the bridge and return its result.

        Within the timeout lost connections and busy bridges are waited out: the same
        request is sent again, with the same id, so that the bridge runs it once.
        on_event gets the events of a command that tells some, on this thread.

        on_revision gets the revision of the state after a command that wrote. As
        min_revision of a later call it has another bridge of the cluster wait until it
        has seen that write.

        Raises BridgeError: what the bridge answered, TargetUnavailable if it was not
        reached, OutcomeUnknown if the connection was lost and the answer with it,
        TimedOut when time ran out.
        """
        context = current_context.get()
        deadline = time.monotonic() + min(max(timeout, 0.001), MAX_TIMEOUT)
        metadata: Dict[str, Any] = {"trace_id": trace or (context and context.trace) or envelope.new_id()}
        if context and context.deadline is not None:
            deadline = min(deadline, context.deadline)
        if priority:
            metadata["priority"] = priority
        if on_event:
            metadata["events"] = True
        if min_revision:
            metadata["min_revision"] = min_revision
        call = Call(self, command, dict(params or {}), metadata, id or envelope.new_id(), deadline, on_event, retry, on_revision)
        if call.id in self._waiters:
            raise errors.IDReused(f"a call with the id {call.id} is under way")
        self._waiters[call.id] = call.inbox
        forget = context.on_end(lambda why: call.inbox.put(("ended", why))) if context else None
        try:
            return call.run()
        finally:
            self._waiters.pop(call.id, None)
            if forget:
                forget()

    async def acall(self, command: str, params: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """:meth:`call` for coroutines."""
        return await asyncio.to_thread(self.call, command, params, **options)

    def invoke(self, skill: str, capability: str, params: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """Have a skill do something and return its result. Options are those of :meth:`call`."""
        body = {"skill_id": skill, "capability_id": capability, "params": dict(params or {})}
        return self.call("skill.invoke", body, **options).get("data")

    async def ainvoke(self, skill: str, capability: str, params: Optional[Mapping[str, Any]] = None, **options: Any) -> Any:
        """:meth:`invoke` for coroutines."""
        return await asyncio.to_thread(self.invoke, skill, capability, params, **options)

    def follow(self, task_id: str, timeout: float = MAX_TIMEOUT) -> Iterator[Dict[str, Any]]:
        """The events of a task until it has ended; the last item is what task.get says then."""
        return follow(self, task_id, timeout)

    def group(self, cap_id: str, group_id: str) -> Group:
        """A group of a Cap: members, shared data, dispatch."""
        return Group(self, cap_id, group_id)

    def channel(self, cap_id: str) -> Channel:
        """What the members of a Cap say to each other."""
        return Channel(self, cap_id)

    @property
    def approvals(self) -> Approvals:
        """The calls of models that wait for a person."""
        return Approvals(self)

    def events(self, family: str, handle: Callable[[Dict[str, Any]], None]) -> Subscription:
        """Hear what happens to agents, skills, approvals and so on; "+" hears all."""
        return self.subscribe(f"{self.root}/event/{family}", json_handler(handle))

    def watch_agent(self, agent_id: str, handle: Callable[[Dict[str, Any]], None]) -> Subscription:
        """Hear an agent's card, now and whenever it or its presence changes; "+" hears all."""
        return self.subscribe(f"{self.root}/agent/{agent_id}/card", json_handler(handle))
