"""The calls that an agent runs and has run. Each id is run once."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from typing import Any, Dict, List, Optional

from . import envelope, errors, schema
from .capability import Capability
from .calling import current_context
from .client import Client
from .invocation import Invocation
from .memory import Memory
from .outbox import Outbox
from .workers import Alarm, Clock, Workers

log = logging.getLogger("aibridge")

MAX_REMEMBERED = 1024  # answers kept for repeats, the oldest going first
_ACCEPT_AFTER = 0.2  # an answer that follows at once says that work has begun as well


class Job:
    """One call, from its arrival until its answer is forgotten."""

    def __init__(self, invocation: Invocation, correlation: Optional[bytes], answer: Optional[bytes] = None) -> None:
        self.invocation = invocation
        self.correlation = correlation
        self.answer = answer  # the response; None while there is none
        self.done = answer is not None
        self.started = False
        self.accepted = False
        self.seq = 0
        self.alarms: List[Alarm] = []
        self.mutex = threading.Lock()  # orders what is sent about the call


class Jobs:
    """The calls of an agent."""

    def __init__(self, client: Client, agent_id: str, workers: int, waiting: int, memory: Optional[Memory]) -> None:
        self._agent_id = agent_id
        self._capacity = workers + waiting
        self._memory = memory
        self._outbox = Outbox(client, agent_id)
        self._workers = Workers(workers)
        self._clock = Clock()
        self._loop = _Loop()
        self._mutex = threading.Lock()
        self._idle = threading.Condition(self._mutex)
        self._closed = False
        self._running = 0
        self._by_caller: Dict[str, int] = {}  # of those running or waiting
        self._by_id: Dict[str, Job] = {}
        self._since = time.monotonic()  # no call that came later is forgotten
        if memory is not None:
            self._recollect(memory)

    def _recollect(self, memory: Memory) -> None:
        """Take over what an earlier run of the program remembers."""
        for id, trace, answer in memory.load():
            if answer is None:
                why = errors.OutcomeUnknown("the device stopped while it was at work on this call")
                answer = envelope.encode(envelope.response(id, self._agent_id, trace, error=why.to_wire()))
            self._by_id[id] = Job(Invocation(id, "", "", trace, "", "", 0), None, answer)

    def resend(self) -> None:
        """Send again, over a new connection, what the last one took with it."""
        self._outbox.resend()

    def start(self, capability: Capability, params: Any, invocation: Invocation, correlation: Optional[bytes]) -> None:
        """Run a call, unless its id was seen before: then its answer is sent again, or
        will be when there is one."""
        job = Job(invocation, correlation)
        invocation._emit = lambda name, data: self._emit(job, name, data)
        with self._mutex:
            known = self._by_id.get(invocation.id)
            if known is None and not self._closed and self._has_place(invocation.caller):
                self._running += 1
                self._by_caller[invocation.caller] = self._by_caller.get(invocation.caller, 0) + 1
                self._by_id[invocation.id] = job
                self._forget()
        if known is not None:
            if known.answer is not None:
                self._outbox.send(known.answer, correlation)
        elif self._closed:
            self.refuse(invocation.id, invocation.trace, correlation, errors.ShuttingDown("the agent is shutting down"))
        elif self._by_id.get(invocation.id) is not job:
            self.refuse(
                invocation.id, invocation.trace, correlation, errors.Busy("the agent has too much to do", retry_after_ms=1000)
            )
        else:
            job.alarms.append(
                self._clock.at(invocation.deadline, lambda: self._stop(job, errors.TimedOut("the time for the call is up")))
            )
            context = contextvars.copy_context()
            self._workers.run(lambda: context.run(self._run, job, capability, params))

    def _has_place(self, caller: str) -> bool:
        """Whether a caller gets a place: one has at most a quarter, administrators, who
        are not told apart, half. The mutex is held."""
        share = self._capacity // (4 if caller else 2) if self._capacity >= 8 else self._capacity
        return self._running < self._capacity and self._by_caller.get(caller, 0) < share

    def _forget(self) -> None:
        """Forget the oldest answers; the mutex is held."""
        excess = len(self._by_id) - MAX_REMEMBERED - self._running
        if excess > 0:
            for id in [id for id, job in self._by_id.items() if job.done][:excess]:
                del self._by_id[id]
                self._since = time.monotonic()

    def _run(self, job: Job, capability: Capability, params: Any) -> None:
        """Run the handler on a worker, and answer."""
        with job.mutex:
            if job.done:
                return  # it was to end before its turn came
            job.started = True
        current_context.set(job.invocation)
        result, failure = None, None
        try:
            job.invocation.check()
            arguments = capability.arguments(params)
            if self._memory is not None and not capability.repeatable:
                self._memory.begin(job.invocation.id, job.invocation.trace)
            job.alarms.append(self._clock.at(time.monotonic() + _ACCEPT_AFTER, lambda: self._accept(job)))
            result = schema.to_json(self._work(job, capability, arguments))
        except errors.Rejected as rejected:
            return self._reject(job, rejected.reason)
        except BaseException as e:
            failure = self._failure(job, e)
        self._finish(job, result, failure)

    def _work(self, job: Job, capability: Capability, arguments: Dict[str, Any]) -> Any:
        outcome = capability.call(arguments, job.invocation)
        if not capability.is_async:
            return outcome
        future = self._loop.run(outcome)
        forget = job.invocation.on_end(lambda why: future.cancel() and None)
        try:
            return future.result()
        finally:
            forget()

    def _failure(self, job: Job, e: BaseException) -> errors.BridgeError:
        """The error that the caller gets for an exception of a handler."""
        stopped = job.invocation._why
        if stopped is not None and (not isinstance(e, errors.BridgeError) or isinstance(e, errors.Cancelled)):
            return stopped  # why it was made to stop, not how it took it
        if isinstance(e, errors.BridgeError):
            return e
        log.error("%s.%s failed", job.invocation.skill, job.invocation.capability, exc_info=e)
        return errors.Internal("the skill failed")

    def _finish(self, job: Job, result: Any, failure: Optional[errors.BridgeError]) -> None:
        payload = self._response(job, result, failure)
        with job.mutex:
            if job.done:
                return
            job.done = True
        job.answer = payload
        if self._memory is not None:
            self._memory.answer(job.invocation.id, payload)
        self._outbox.send(payload, job.correlation)
        self._left(job)

    def _response(self, job: Job, result: Any, failure: Optional[errors.BridgeError]) -> bytes:
        """The response envelope, which the bridge takes for sure."""
        id, trace = job.invocation.id, job.invocation.trace
        try:
            error = failure.to_wire() if failure is not None else None
            payload = envelope.encode(envelope.response(id, self._agent_id, trace, result, error))
            if len(payload) <= envelope.MAX_BYTES:
                return payload
            why = errors.Internal(f"the skill's answer is too large: {len(payload)} bytes, {envelope.MAX_BYTES} are possible")
        except (TypeError, ValueError):
            log.exception("the result of %s.%s is not JSON", job.invocation.skill, job.invocation.capability)
            why = errors.Internal("the skill failed: its result is not JSON")
        return envelope.encode(envelope.response(id, self._agent_id, trace, error=why.to_wire()))

    def _left(self, job: Job) -> None:
        for alarm in job.alarms:
            alarm.cancel()
        caller = job.invocation.caller
        with self._mutex:
            self._running -= 1
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            self._idle.notify_all()

    def _reject(self, job: Job, reason: str) -> None:
        self._emit(job, "task.rejected", {"reason": reason})
        with job.mutex:
            job.done = True
        if self._memory is not None:
            self._memory.forget(job.invocation.id)
        with self._mutex:
            self._by_id.pop(job.invocation.id, None)  # nothing has happened: it may come again
        self._left(job)

    def _accept(self, job: Job) -> None:
        self._emit(job, "task.accepted", {})

    def _emit(self, job: Job, name: str, data: Dict[str, Any]) -> None:
        """Send an event about a call at work, its acceptance first."""
        data = schema.to_json(data)
        if name == "task.delta":
            self._outbox.wait_for_room(lambda: job.invocation.cancelled)
        with job.mutex:
            if job.done or (job.accepted and name == "task.accepted"):
                return
            names = [name] if job.accepted or name in ("task.accepted", "task.rejected") else ["task.accepted", name]
            job.accepted = True
            for n in names:
                job.seq += 1
                about = {} if n == "task.accepted" else data
                event = envelope.event(job.invocation.id, self._agent_id, job.invocation.trace, n, job.seq, about)
                self._outbox.send_once(envelope.encode(event), job.correlation)

    def _stop(self, job: Job, why: errors.BridgeError) -> None:
        """Have a call end: its handler sees it, and one that has none yet is answered."""
        with job.mutex:
            if job.done:
                return
            waiting = not job.started
        job.invocation._end(why)
        if waiting:
            with job.mutex:
                waiting = not job.started
                job.started = True
            if waiting:
                self._finish(job, None, why)

    def cancel(self, id: str, reason: str) -> None:
        with self._mutex:
            job = self._by_id.get(id)
        if job is not None:
            self._stop(job, errors.Cancelled(f"cancelled: {reason}" if reason else "cancelled"))

    def recall(self, id: str, asked: str, trace: Optional[str], correlation: Optional[bytes]) -> None:
        """Answer the question what became of a call; an answer that is known is sent again."""
        with self._mutex:
            job, since = self._by_id.get(id), self._since
        if job is None:
            ms = int((time.monotonic() - since) * 1000)
            unknown = errors.NotFound("this agent does not know the call", task_id=id, listening_ms=ms)
            return self.refuse(asked, trace, correlation, unknown)
        if job.answer is not None:
            self._outbox.send(job.answer, id.encode())
        state = {"state": "running" if job.answer is None else "done"}
        self._outbox.send(envelope.encode(envelope.response(asked, self._agent_id, trace, state)), correlation)

    def refuse(self, id: str, trace: Optional[str], correlation: Optional[bytes], why: errors.BridgeError) -> None:
        """Answer a request that is no call."""
        self._outbox.send(envelope.encode(envelope.response(id, self._agent_id, trace, error=why.to_wire())), correlation)

    def close(self, patience: float) -> bool:
        """Stop what is at work and wait for its answers to leave. False if a handler does not end."""
        with self._mutex:
            self._closed = True
            at_work: List[Job] = [job for job in self._by_id.values() if not job.done]
        for job in at_work:
            self._stop(job, errors.ShuttingDown("the agent is shutting down"))
        deadline = time.monotonic() + patience
        with self._mutex:
            while self._running and time.monotonic() < deadline:
                self._idle.wait(max(deadline - time.monotonic(), 0.001))
            ended = self._running == 0
        self._outbox.flush(max(deadline - time.monotonic(), 0.1))
        self._workers.close()
        self._clock.close()
        self._loop.close()
        return ended


class _Loop:
    """An event loop on a thread of its own, for handlers that are coroutines."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self, coroutine: Any) -> Any:
        with self._mutex:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="aibridge-asyncio", daemon=True).start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        with self._mutex:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
