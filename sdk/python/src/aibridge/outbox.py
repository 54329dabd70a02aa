"""What an agent sends, and sends again until the bridge has it."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Callable, Dict, Optional, Tuple

from . import envelope
from ._mqtt import Lost, Message
from .client import Client

MAX_WAITING = 1024  # answers on their way; the oldest is dropped for another
_WORTH = 300.0  # seconds that an answer is worth sending


class Outbox:
    """Answers leave at once if there is a connection, else over the next one. Nobody
    waits for them. An answer that was lost with a connection is sent again; the
    bridge takes the first one."""

    def __init__(self, client: Client, agent_id: str) -> None:
        self._client = client
        self._agent_id = agent_id
        self._mutex = threading.Lock()
        self._sent = threading.Condition(self._mutex)
        self._numbers = itertools.count()
        self._waiting: Dict[int, Tuple[Message, float]] = {}

    def _message(self, payload: bytes, correlation: Optional[bytes]) -> Message:
        return Message(
            topic=f"{self._client.root}/agent/{self._agent_id}/response",
            payload=payload,
            qos=1,
            content_type="application/json",
            correlation=correlation,
            properties=(("version", envelope.VERSION),),
        )

    def send(self, payload: bytes, correlation: Optional[bytes]) -> None:
        """Send an answer, over the next connection if need be."""
        m = self._message(payload, correlation)
        with self._mutex:
            number = next(self._numbers)
            self._waiting[number] = (m, time.monotonic() + _WORTH)
            if len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        self._try(number, m)

    def send_once(self, payload: bytes, correlation: Optional[bytes]) -> None:
        """Send an event, if there is a connection with room for it."""
        link = self._client._ready_link()
        if link is not None and not link.crowded:
            link.publish(self._message(payload, correlation))

    def wait_for_room(self, until: Callable[[], bool]) -> None:
        """Hold up a stream that is faster than the connection, unless it is to end."""
        while not until():
            link = self._client._ready_link()
            if link is None or not link.crowded:
                return
            time.sleep(0.005)

    def _try(self, number: int, m: Message) -> None:
        link = self._client._ready_link()
        if link is not None:
            link.publish(m, lambda error: self._settled(number, error))

    def _settled(self, number: int, error: Optional[Exception]) -> None:
        if isinstance(error, Lost):
            return  # the next connection has it
        with self._mutex:
            self._waiting.pop(number, None)
            self._sent.notify_all()

    def resend(self) -> None:
        now = time.monotonic()
        with self._mutex:
            self._waiting = {n: (m, until) for n, (m, until) in self._waiting.items() if until > now}
            again = list(self._waiting.items())
        for number, (m, _) in again:
            self._try(number, m)

    def flush(self, patience: float) -> None:
        """Wait until everything has left, if there is a connection."""
        deadline = time.monotonic() + patience
        with self._mutex:
            while self._waiting and time.monotonic() < deadline:
                if self._client._ready_link() is None:
                    return
                self._sent.wait(0.05)
