"""One call of a capability, as its handler sees it."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional

from . import errors
from .calling import CallContext, current_context


class Invocation(CallContext):
    """One call of a capability. A handler gets it by a parameter of this type, or by
    :func:`current`."""

    def __init__(
        self, id: str, skill: str, capability: str, trace: Optional[str], caller: str, priority: str, seconds: float
    ) -> None:
        self.id = id
        self.skill = skill
        self.capability = capability
        self.trace = trace
        self.caller = caller  # tells callers apart as long as the bridge runs; "" for administrators
        self.priority = priority
        self.deadline: float = time.monotonic() + seconds
        self._ended = threading.Event()
        self._why: Optional[errors.BridgeError] = None
        self._mutex = threading.Lock()
        self._told: List[Callable[[errors.BridgeError], None]] = []
        self._emit: Callable[[str, Dict[str, Any]], None] = lambda name, data: None

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0)

    @property
    def cancelled(self) -> bool:
        """Whether the work is to end: it was cancelled, its time is up, or the agent leaves."""
        return self._ended.is_set()

    def check(self) -> None:
        """Raise the error that the work is to end with, if it is to end."""
        if self._why is not None:
            raise self._why

    def sleep(self, seconds: float) -> None:
        """Pause; raises the error that the work is to end with as soon as it is to end."""
        self._ended.wait(seconds)
        self.check()

    def progress(self, percent: float, message: str = "", **data: Any) -> None:
        """Tell the caller how far the work is, from 0 to 100. It does not wait; progress may be lost."""
        told: Dict[str, Any] = {"percent": percent}
        if message:
            told["message"] = message
        if data:
            told["data"] = data
        self._emit("task.progress", told)

    def delta(self, **data: Any) -> None:
        """Send a piece of the result ahead, for streams. It waits while the connection is
        slower than the stream."""
        self._emit("task.delta", data)

    def on_end(self, told: Callable[[errors.BridgeError], None]) -> Callable[[], None]:
        with self._mutex:
            why = self._why
            if why is None:
                self._told.append(told)
        if why is not None:
            told(why)

        def forget() -> None:
            with self._mutex:
                if told in self._told:
                    self._told.remove(told)

        return forget

    def _end(self, why: errors.BridgeError) -> None:
        """Have the work end, for a reason; the first one counts."""
        with self._mutex:
            if self._why is not None:
                return
            self._why = why
            told, self._told = self._told, []
        self._ended.set()
        for tell in told:
            tell(why)


def current() -> Invocation:
    """The invocation that the calling code works on."""
    found = current_context.get()
    if not isinstance(found, Invocation):
        raise RuntimeError("there is no invocation: this is not called from a handler")
    return found
