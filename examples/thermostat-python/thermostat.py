#!/usr/bin/env python3
"""A thermostat as a skill of AI Bridge, with the Python SDK."""

import threading
from dataclasses import asdict, dataclass
from typing import Annotated, Dict

from aibridge import Agent, InvalidParameter, Range

agent = Agent("thermostat-python", name="Thermostat", description="Reads and sets the temperature of a room")


LOWEST, HIGHEST = 5, 30


@dataclass
class Settings:
    """The state of the thermostat that others set, also while it is away."""

    highest: Annotated[float, Range(LOWEST, HIGHEST)]


@dataclass
class Reading:
    celsius: float
    target: float


class Room:
    """Pretends to be heated. Calls run on several threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._celsius, self._target, self._highest = 19.0, 20.0, float(HIGHEST)

    def read(self) -> Reading:
        with self._mutex:
            self._celsius += (self._target - self._celsius) / 10  # the room follows slowly
            return Reading(self._celsius, self._target)

    def aim(self, celsius: float) -> Reading:
        with self._mutex:
            if celsius > self._highest:
                raise InvalidParameter.at("params.celsius", f"must be {LOWEST} to {self._highest:g}, is {celsius:g}")
            self._target = celsius
            return Reading(self._celsius, self._target)

    def bound(self, highest: float) -> Settings:
        # A device does not rely on others for what could harm it.
        if not LOWEST <= highest <= HIGHEST:
            raise ValueError(f"highest must be {LOWEST} to {HIGHEST}, is {highest:g}")
        with self._mutex:
            self._highest, self._target = highest, min(self._target, highest)
            return Settings(self._highest)


room = Room()


@agent.capability(effect="read")
def read() -> Reading:
    """The temperature now and the one aimed at."""
    return room.read()


@agent.capability(idempotent=True)
def set_target(celsius: Annotated[float, Range(LOWEST, HIGHEST)]) -> Reading:
    """Aim at a temperature."""
    return room.aim(celsius)


@agent.desired(Settings)
def take(delta: Dict[str, float]) -> Dict[str, float]:
    """Make settings its own, and tell the bridge."""
    return asdict(room.bound(delta["highest"]))


if __name__ == "__main__":
    agent.run()
