#!/usr/bin/env python3
"""A thermostat as a skill of AI Bridge, with the Python SDK."""

import threading
from dataclasses import dataclass
from typing import Annotated

from aibridge import Agent, Range

agent = Agent("thermostat-python", name="Thermostat", description="Reads and sets the temperature of a room")


@dataclass
class Reading:
    celsius: float
    target: float


class Room:
    """Pretends to be heated. Calls run on several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._celsius, self._target = 19.0, 20.0

    def read(self) -> Reading:
        with self._mutex:
            self._celsius += (self._target - self._celsius) / 10  # the room follows slowly
            return Reading(self._celsius, self._target)

    def aim(self, celsius: float) -> Reading:
        with self._mutex:
            self._target = celsius
            return Reading(self._celsius, self._target)


room = Room()


@agent.capability(effect="read")
def read() -> Reading:
    """The temperature now and the one aimed at."""
    return room.read()


@agent.capability(idempotent=True)
def set_target(celsius: Annotated[float, Range(5, 30)]) -> Reading:
    """Aim at a temperature."""
    return room.aim(celsius)


if __name__ == "__main__":
    agent.run()
