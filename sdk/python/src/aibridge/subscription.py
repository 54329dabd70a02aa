"""Subscriptions that last over reconnections."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Callable, Iterator, List, Optional

from paho.mqtt.client import topic_matches_sub

from . import errors
from ._mqtt import Connection, Lost, Message

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("aibridge")

MAX_WAITING = 1024  # messages of a subscription; more are dropped


class Subscription:
    """Messages on topics that a filter covers: for a handler, or by iteration."""

    def __init__(self, owner: "Subscriptions", filter: str, handle: Optional[Callable[[Message], None]], qos: int) -> None:
        self.filter = filter
        self.qos = qos
        self._owner = owner
        self._handle = handle
        self._waiting: "queue.Queue[Optional[Message]]" = queue.Queue(MAX_WAITING)
        self._closed = threading.Event()
        self._pattern = filter.split("/", 2)[2] if filter.startswith("$share/") else filter
        if handle is not None:
            threading.Thread(target=self._run, name=f"aibridge-{filter}", daemon=True).start()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while True:
            m = self.get()
            if m is None:
                return
            yield m

    def get(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message; None when time is up or the subscription has ended."""
        if self._closed.is_set() and self._waiting.empty():
            return None
        try:
            return self._waiting.get(timeout=timeout)
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the subscription."""
        if not self._closed.is_set():
            self._owner.remove(self)
            self._end()

    def covers(self, topic: str) -> bool:
        return bool(topic_matches_sub(self._pattern, topic))

    def put(self, m: Message) -> None:
        try:
            self._waiting.put_nowait(m)
        except queue.Full:
            log.warning("a message on %s is dropped: %d wait", m.topic, MAX_WAITING)

    def _end(self) -> None:
        self._closed.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            pass  # whoever reads sees that it is closed

    def _run(self) -> None:
        assert self._handle is not None
        for m in self:
            if self._closed.is_set():
                return
            try:
                self._handle(m)
            except Exception:
                log.exception("the handler of %s failed", self.filter)


class Subscriptions:
    """All subscriptions of a client."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._mutex = threading.Lock()
        self._all: List[Subscription] = []

    def open(self, filter: str, handle: Optional[Callable[[Message], None]], qos: int) -> Subscription:
        s = Subscription(self, filter, handle, qos)
        with self._mutex:
            self._all.append(s)
        try:
            link = self._client._online(time.monotonic() + 30)
            code = link.subscribe([(filter, qos)])[0]
        except Lost:
            return s  # the next connection has it
        except BaseException:
            s.close()
            raise
        if code >= 0x80:
            s.close()
            kind = errors.PermissionDenied if code == 0x87 else errors.InvalidParameter
            raise kind(f"the bridge refuses the subscription to {filter}: reason {code:#x}")
        return s

    def restore(self, link: Connection) -> None:
        """Subscribe to everything on a new connection. What is refused now is logged."""
        with self._mutex:
            wanted = list({s.filter: s.qos for s in self._all}.items())
        for (filter, _), code in zip(wanted, link.subscribe(wanted) if wanted else []):
            if code >= 0x80:
                log.warning("the bridge refuses the subscription to %s: reason %#x", filter, code)

    def deliver(self, m: Message) -> None:
        with self._mutex:
            hearing = [s for s in self._all if s.covers(m.topic)]
        for s in hearing:
            s.put(m)

    def remove(self, s: Subscription) -> None:
        with self._mutex:
            if s in self._all:
                self._all.remove(s)
            last = all(other.filter != s.filter for other in self._all)
        link = self._client._ready_link()
        if last and link is not None:
            link.unsubscribe(s.filter)

    def close(self) -> None:
        with self._mutex:
            every, self._all = self._all, []
        for s in every:
            s._end()
