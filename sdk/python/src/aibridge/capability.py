"""A capability: a function whose signature is the schema."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Literal, Mapping, Optional, TypeVar, overload

from . import schema
from .desired import DeclareDesired, Desired
from .invocation import Invocation

Handler = Callable[..., Any]


class Capability:
    """One thing that a skill can do. Bad declarations are a TypeError when it is made."""

    def __init__(
        self,
        function: Handler,
        *,
        id: Optional[str] = None,
        name: Optional[str] = None,
        description: Optional[str] = None,
        effect: Optional[str] = None,
        idempotent: bool = False,
        risk: Optional[str] = None,
        effect_key: Optional[str] = None,
        effect_window_ms: Optional[int] = None,
        reconcile: Optional[Dict[str, Any]] = None,
    ) -> None:
        if effect not in (None, "read", "act"):
            raise TypeError(f"effect must be read or act, is {effect!r}")
        self.function = function
        self.id = id or function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self._fields, self._inject = schema.parameters(function, Invocation)
        self.params_schema = schema.object_schema(self._fields)
        self.result_schema = self._result_schema()
        self._about: Dict[str, Any] = {"name": name, "description": description or schema.summary(function), "effect": effect, "risk": risk}
        self._about.update(effect_key=effect_key, effect_window_ms=effect_window_ms, reconcile=reconcile)
        # What may run again needs no memory that lasts.
        self.repeatable = idempotent or effect == "read"
        self._idempotent = idempotent

    def _result_schema(self) -> Optional[Dict[str, Any]]:
        result = schema.result_type(self.function)
        if result in (Any, None, type(None)):
            return None
        try:
            return schema.schema_of(result) or None
        except TypeError:
            return None  # a hint for readers of the code alone

    def describe(self) -> Dict[str, Any]:
        """The capability as skill.register takes it."""
        described: Dict[str, Any] = {"capability_id": self.id, "params_schema": self.params_schema}
        described.update({k: v for k, v in self._about.items() if v})
        if self.result_schema:
            described["result_schema"] = self.result_schema
        if self._idempotent:
            described["idempotent"] = True
        return described

    def arguments(self, params: Any) -> Dict[str, Any]:
        """The function's arguments for the params of a call; InvalidParameter if they do not fit."""
        return schema.object_from_json(self._fields, params, "params")

    def call(self, arguments: Dict[str, Any], invocation: Invocation) -> Any:
        """Call the function; a coroutine function yields a coroutine."""
        if self._inject:
            arguments = {**arguments, self._inject: invocation}
        return self.function(**arguments)


F = TypeVar("F", bound=Handler)


class Declare:
    """The decorator that makes a function a capability, with or without options:

    id, name and description, by default the function's name and docstring;
    effect="read" if it changes nothing; idempotent=True if running it twice is as
    good as once; risk="low", "medium" or "high" for policies and approvals;
    effect_key="door:{door}" says which calls are the same deed, effect_window_ms for
    how long, and reconcile, {"capability_id": …, "params": …, "done_when": …,
    "not_done_when": …}, how to find out whether one was done.
    """

    def __init__(self, skill: "Skill") -> None:
        self._skill = skill

    @overload
    def __call__(self, function: F) -> F:
        ...

    @overload
    def __call__(
        self,
        *,
        id: Optional[str] = None,
        name: Optional[str] = None,
        description: Optional[str] = None,
        effect: Optional[Literal["read", "act"]] = None,
        idempotent: bool = False,
        risk: Optional[str] = None,
        effect_key: Optional[str] = None,
        effect_window_ms: Optional[int] = None,
        reconcile: Optional[Dict[str, Any]] = None,
    ) -> Callable[[F], F]:
        ...

    def __call__(self, function: Optional[Handler] = None, **options: Any) -> Any:
        def declare(f: Handler) -> Handler:
            made = Capability(f, **options)
            if made.id in self._skill.capabilities:
                raise TypeError(f"the skill {self._skill.id} has the capability {made.id} already")
            self._skill.capabilities[made.id] = made
            return f

        return declare if function is None else declare(function)


class Skill:
    """A named set of capabilities. :attr:`capability` decorates the functions."""

    def __init__(self, id: str, *, name: str = "", description: str = "", version: str = "1.0.0") -> None:
        self.id = id
        self.name = name or id
        self.description = description
        self.version = version
        self.capabilities: Dict[str, Capability] = {}
        self.capability = Declare(self)
        self.takes: Optional[Desired] = None
        self.desired = DeclareDesired(self._take)

    def _take(self, desired: Desired) -> None:
        if self.takes is not None:
            raise TypeError(f"the skill {self.id} has a function for its desired state already")
        self.takes = desired

    def describe(self) -> Dict[str, Any]:
        """The skill as agent.register takes it."""
        described: Dict[str, Any] = {
            "skill_id": self.id,
            "name": self.name,
            "version": self.version,
            "capabilities": [c.describe() for c in self.capabilities.values()],
        }
        if self.description:
            described["description"] = self.description
        if self.takes is not None and self.takes.schema is not None:
            described["state_schema"] = self.takes.schema
        return described


def params_of(request: Mapping[str, Any]) -> Any:
    """The params of the capability in a request, {} for none."""
    params = request.get("params")
    return {} if params is None else params
