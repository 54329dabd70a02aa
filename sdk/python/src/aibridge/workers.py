"""Threads for handlers, and a clock for what happens later."""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from typing import Callable, List, Optional, Tuple

log = logging.getLogger("aibridge")


class Workers:
    """Daemon threads that run what they are given, begun when they are needed. A
    handler that hangs does not keep the program from ending."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._work: "queue.SimpleQueue[Optional[Callable[[], None]]]" = queue.SimpleQueue()
        self._mutex = threading.Lock()
        self._threads = 0
        self._busy = 0  # given and not done

    def run(self, work: Callable[[], None]) -> None:
        with self._mutex:
            self._busy += 1
            if self._busy > self._threads and self._threads < self._count:
                self._threads += 1
                threading.Thread(target=self._serve, name=f"aibridge-worker-{self._threads}", daemon=True).start()
        self._work.put(work)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                work()
            except Exception:
                log.exception("a worker failed")
            with self._mutex:
                self._busy -= 1

    def close(self) -> None:
        for _ in range(self._count):
            self._work.put(None)


class Alarm:
    """A call that a Clock is to make, unless it is cancelled before."""

    def __init__(self, clock: "Clock", call: Callable[[], None]) -> None:
        self._clock = clock
        self.call: Optional[Callable[[], None]] = call

    def cancel(self) -> None:
        if self.call is not None:
            self.call = None  # and what it holds
            self._clock.tidy()


class Clock:
    """One thread that calls functions at their time. They must not block."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: List[Tuple[float, int, Alarm]] = []
        self._cancelled = 0  # about as many of these
        self._numbers = itertools.count()
        self._closed = False
        self._thread: Optional[threading.Thread] = None

    def at(self, when: float, call: Callable[[], None]) -> Alarm:
        """Have call called when time.monotonic() is there."""
        alarm = Alarm(self, call)
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), alarm))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="aibridge-clock", daemon=True)
                self._thread.start()
            if self._due[0][0] == when:
                self._changed.notify()
        return alarm

    def tidy(self) -> None:
        """Count a cancelled alarm, and drop them all when they are the most."""
        with self._changed:
            self._cancelled += 1
            if self._cancelled > 64 and self._cancelled > len(self._due) // 2:
                self._due = [entry for entry in self._due if entry[2].call is not None]
                heapq.heapify(self._due)
                self._cancelled = 0

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed and (not self._due or self._due[0][0] > time.monotonic()):
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._closed:
                    return
                call = heapq.heappop(self._due)[2].call
            try:
                if call is not None:
                    call()
            except Exception:
                log.exception("what was due failed")
