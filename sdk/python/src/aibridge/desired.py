"""Desired and reported state: what a device shall be, and what it is."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional

from . import schema
from ._mqtt import Message

if TYPE_CHECKING:
    from .agent import Agent

log = logging.getLogger("aibridge")

Handler = Callable[[Dict[str, Any]], Optional[Mapping[str, Any]]]


class Desired:
    """The function that makes a device what it shall be, and the schema of its state."""

    def __init__(self, function: Handler, state: Any) -> None:
        self.function = function
        self.schema: Optional[Dict[str, Any]] = dict(state) if isinstance(state, Mapping) else None
        if self.schema is None and state is not None:
            self.schema = schema.schema_of(state)


class DeclareDesired:
    """The decorator of the function that takes over a desired state:

        @agent.desired(Settings)
        def take(delta):
            device.highest = delta["highest"]
            return {"highest": device.highest}

    It gets the members of the desired state that the reported one lacks, also those that
    were set while the device was away. What it returns is reported, as a merge patch;
    None reports nothing. Of an exception the bridge learns nothing: the delta stays.
    The argument is the state as a dataclass or a TypedDict, or as JSON Schema: the bridge
    checks desired and reported states against it. It may be left out.
    """

    def __init__(self, keep: Callable[[Desired], None]) -> None:
        self._keep = keep

    def __call__(self, state: Any = None) -> Callable[[Handler], Handler]:
        def declare(function: Handler) -> Handler:
            self._keep(Desired(function, state))
            return function

        return declare


class Follower:
    """Has the skills of an agent made what they shall be. Its calls come one at a time."""

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent
        self._follows = False

    def follow(self) -> None:
        """Listen for what is desired, from now on, if a skill takes it."""
        if self._follows or not any(s.takes for s in self._agent._skills.values()):
            return
        client = self._agent.client
        client.subscribe(f"{client.root}/agent/{self._agent.id}/state/delta", self._hear)
        self._follows = True

    def _hear(self, m: Message) -> None:
        if not m.payload:
            return  # the state is gone
        try:
            delta = json.loads(m.payload)
        except ValueError as e:
            log.error("desired state not understood: %s", e)
            return
        for skill_id, wanted in delta.items() if isinstance(delta, dict) else ():
            skill = self._agent._skills.get(skill_id)
            if skill is None or skill.takes is None or not isinstance(wanted, dict):
                continue
            try:
                reported = skill.takes.function(wanted)
                if reported is not None:
                    self._agent.report(reported, skill_id)
            except Exception:
                log.exception("the desired state of %s is not taken over", skill_id)
