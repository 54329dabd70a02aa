"""A command on its way to the bridge, and on its way again."""

from __future__ import annotations

import contextvars
import queue
import random
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from . import envelope, errors
from ._mqtt import Connection, Lost, Message

if TYPE_CHECKING:
    from .client import Client

_GRACE = 1.0  # how much longer than the bridge a caller waits: its 4007 says more
_MAX_REPEATS = 4  # where something that the bridge needs is out of order
_DEFAULT_PAUSE = 0.25  # after a 4008 or 4009 that names none

OnEvent = Callable[[Dict[str, Any]], None]
OnRevision = Callable[[int], None]


class CallContext:
    """What a call inherits from the invocation that it is made for."""

    trace: Optional[str] = None
    deadline: Optional[float] = None  # of time.monotonic()

    def on_end(self, told: Callable[[errors.BridgeError], None]) -> Callable[[], None]:
        """Have told called when the invocation is to end; the result takes that back."""
        return lambda: None


current_context: "contextvars.ContextVar[Optional[CallContext]]" = contextvars.ContextVar("aibridge", default=None)


def backoff(attempt: int, limit: float) -> float:
    """The pause before an attempt, the first repeat being 1: it doubles up to a
    limit, and half of it is up to chance."""
    pause: float = min(0.05 * 2 ** min(max(attempt - 1, 0), 20), limit)
    return pause / 2 + random.random() * pause / 2


class Call:
    """One command on its way."""

    def __init__(
        self,
        client: "Client",
        command: str,
        params: Dict[str, Any],
        metadata: Dict[str, Any],
        id: str,
        deadline: float,
        on_event: Optional[OnEvent],
        retry: bool,
        on_revision: Optional[OnRevision] = None,
    ) -> None:
        self._client = client
        self._command = command
        self._params = params
        self._metadata = metadata
        self.id = id
        self._deadline = deadline
        self._on_event = on_event
        self._retry = retry
        self._on_revision = on_revision
        self._sent = False  # the bridge may have it
        self.inbox: "queue.SimpleQueue[Tuple[str, Any]]" = queue.SimpleQueue()

    def run(self) -> Any:
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = self._attempt()
            except Lost as lost:
                if not self._retry or not self._pause(backoff(attempt, 5.0)):
                    raise self._gave_up(str(lost)) from lost
                continue
            except errors.TargetUnavailable as e:
                raise self._gave_up(e.message) if self._sent else e
            error = answer.get("error")
            if error is None and answer.get("status", "success") == "success":
                self._tell_revision(answer.get("metadata"))
                return answer.get("result")
            failure = errors.BridgeError.from_wire(error or "the bridge does not say why")
            pause = self._repeat_after(failure, attempt)
            if pause is None or not self._retry or not self._pause(pause):
                raise failure

    def _tell_revision(self, metadata: Any) -> None:
        """Tell the caller the revision that the metadata of an answer has, if it has one."""
        revision = metadata.get("revision") if isinstance(metadata, dict) else None
        if self._on_revision and isinstance(revision, int) and revision > 0:
            self._on_revision(revision)

    def _attempt(self) -> Dict[str, Any]:
        """Send the request once and wait for the answer."""
        while not self.inbox.empty():
            self.inbox.get()  # what is left of the last attempt
        link = self._client._online(self._deadline)
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise errors.TimedOut("no time left to send the request")
        self._metadata["timeout"] = max(1, int(left * 1000))
        payload = envelope.encode(envelope.request(self._command, self._params, self._metadata, self.id))
        if len(payload) > envelope.MAX_BYTES:
            raise errors.PayloadTooLarge("the request is too large", size=len(payload), limit=envelope.MAX_BYTES)
        self._sent = True
        link.publish(self._message(payload, left), lambda error: self._published(link, error))
        return self._answer(link)

    def _message(self, payload: bytes, left: float) -> Message:
        return Message(
            topic=f"{self._client.root}/bridge/request",
            payload=payload,
            qos=1,
            content_type="application/json",
            response_topic=self._client.response_topic,
            correlation=self.id.encode(),
            properties=(("version", envelope.VERSION), ("trace_id", str(self._metadata["trace_id"]))),
            expiry=left,
        )

    def _published(self, link: Connection, error: Optional[Exception]) -> None:
        if isinstance(error, Lost):
            self.inbox.put(("lost", link))
        elif error is not None:
            self.inbox.put(("ended", error))

    def _answer(self, link: Connection) -> Dict[str, Any]:
        """Wait for the answer to what was sent over a connection. The end of an earlier
        one, which may be told late, is no reason to send again."""
        while True:
            try:
                kind, value = self.inbox.get(timeout=max(self._deadline + _GRACE - time.monotonic(), 0.001))
            except queue.Empty:
                raise errors.TimedOut("the bridge did not answer in time") from None
            if kind == "response":
                answer: Dict[str, Any] = value
                return answer
            if kind == "event" and self._on_event:
                self._on_event(value)
            elif kind == "lost" and value in (None, link):
                raise Lost("no answer before the connection was lost")
            elif kind == "ended":
                raise value

    def _pause(self, seconds: float) -> bool:
        """Wait before another attempt, if that leaves time for it."""
        if time.monotonic() + seconds >= self._deadline:
            return False
        return not self._client._closing.wait(seconds)

    def _repeat_after(self, error: errors.BridgeError, attempt: int) -> Optional[float]:
        """The pause before the request is sent again, None if that is of no use."""
        if str(error.details.get("agent_code", ""))[:1] in ("1", "2"):
            return None  # the agent has said no, in a code that is the bridge's own
        if error.retry is errors.Retry.AFTER:
            return (error.retry_after or _DEFAULT_PAUSE) * (1 + random.random() / 10)
        if error.retry is errors.Retry.BACKOFF and attempt <= _MAX_REPEATS:
            return backoff(attempt, 5.0)
        return None

    def _gave_up(self, why: str) -> errors.BridgeError:
        """The error after the last attempt: where the bridge may have the request, an
        error of the connection says nothing about what became of it."""
        if self._sent:
            return errors.OutcomeUnknown(f"the connection to the bridge was lost before it answered: {why}")
        return errors.TargetUnavailable(why)
