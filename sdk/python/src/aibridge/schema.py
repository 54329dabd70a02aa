"""JSON Schema from type hints, and values of those types from JSON.

``None, bool, int, float, str, bytes``, ``Any``, ``Literal``, ``Enum``, ``Optional``
and unions, lists, tuples, sets, dicts, dataclasses, ``TypedDict``, ``datetime``,
``Annotated`` with limits, and pydantic models where pydantic is installed.
"""

from __future__ import annotations

import base64
import binascii
import collections.abc
import dataclasses
import datetime
import enum
import inspect
import math
import re
import typing
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from .errors import InvalidParameter

Schema = Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Range:
    """Limits of a number, for ``Annotated[int, Range(0, 255)]``. Both are allowed values."""

    minimum: Optional[float] = None
    maximum: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Length:
    """Limits of the length of a text or list."""

    minimum: Optional[int] = None
    maximum: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A regular expression that a text must contain a match of."""

    regex: str


class Field(NamedTuple):
    """A parameter of a function, or a field of an object."""

    name: str
    type: Any
    required: bool
    default: Any = None
    doc: str = ""


def parameters(function: Callable[..., Any], inject: Optional[type] = None) -> Tuple[List[Field], Optional[str]]:
    """The fields of a function's parameters, and the name of the parameter that
    takes what is injected. Bad declarations are a TypeError."""
    hints = typing.get_type_hints(function, include_extras=True)
    docs = _argument_docs(inspect.getdoc(function) or "")
    fields: List[Field] = []
    injected: Optional[str] = None
    for name, p in inspect.signature(function).parameters.items():
        hint = hints.get(name, Any)
        if inject is not None and hint is inject:
            injected = name
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            raise TypeError(f"{function.__name__}: {p} cannot be a param: give each a name")
        if name not in hints:
            raise TypeError(f"{function.__name__}: {name} needs a type hint")
        required = p.default is p.empty
        fields.append(Field(name, hint, required, None if required else p.default, docs.get(name, "")))
    return fields, injected


def result_type(function: Callable[..., Any]) -> Any:
    """What a function is annotated to return, Any if it is not."""
    return typing.get_type_hints(function, include_extras=True).get("return", Any)


def summary(function: Callable[..., Any]) -> str:
    """The docstring's text before the first section, in one line."""
    text = re.split(r"\n\s*(?:Args|Arguments|Parameters|Returns|Raises)\s*:\s*\n", "\n" + (inspect.getdoc(function) or ""))[0]
    return " ".join(text.split())[:512]


def _argument_docs(doc: str) -> Dict[str, str]:
    """The lines "name: text" below "Args:"."""
    section = re.search(r"^(?:Args|Arguments|Parameters)\s*:\s*\n((?:[ \t]+.*(?:\n|$)|\n)*)", doc, re.MULTILINE)
    found: Dict[str, str] = {}
    name = ""
    for line in section.group(1).splitlines() if section else []:
        match = re.match(r"\s+(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)", line)
        if match:
            name = match.group(1)
            found[name] = match.group(2)
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found


def object_schema(fields: List[Field]) -> Schema:
    """The schema of an object with fields and no others. A type that holds itself is a TypeError."""
    try:
        return _object_schema(fields)
    except RecursionError:
        raise TypeError("a type holds itself: such a type cannot be a param or result") from None


def _object_schema(fields: List[Field]) -> Schema:
    properties: Schema = {}
    for f in fields:
        properties[f.name] = schema_of(f.type)
        if f.doc:
            properties[f.name] = {**properties[f.name], "description": f.doc}
        if not f.required and f.default is not None:
            properties[f.name] = {**properties[f.name], "default": to_json(f.default)}
    required = [f.name for f in fields if f.required]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_PLAIN: Dict[Any, Schema] = {
    Any: {},
    object: {},
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
}


def schema_of(hint: Any) -> Schema:
    """The JSON Schema of a type. A type that JSON cannot have is a TypeError."""
    try:
        if hint in _PLAIN:
            return dict(_PLAIN[hint])
    except TypeError:
        pass  # not hashable
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _limited(schema_of(args[0]), args[1:])
    if origin is typing.Literal:
        return {"enum": list(args)}
    if _is_union(origin):
        return _union_schema(args)
    if origin is not None:
        return _collection_schema(hint, origin, args)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [to_json(member.value) for member in hint]}
    fields = fields_of(hint)
    if fields is not None:
        return object_schema(fields)
    model = _pydantic_schema(hint)
    if model is not None:
        return model
    raise TypeError(f"{hint!r} has no JSON Schema: use plain types, dataclasses, TypedDict, Literal or Enum")


def _union_schema(args: Tuple[Any, ...]) -> Schema:
    some = [schema_of(a) for a in args if a is not type(None)]
    null = [] if len(some) == len(args) else [{"type": "null"}]
    return some[0] if len(some) + len(null) == 1 else {"anyOf": some + null}


def _collection_schema(hint: Any, origin: Any, args: Tuple[Any, ...]) -> Schema:
    if origin is tuple and args and args[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema_of(a) for a in args], "minItems": len(args), "maxItems": len(args)}
    if origin in (list, tuple, collections.abc.Sequence, collections.abc.Iterable):
        return {"type": "array", "items": schema_of(args[0])} if args else {"type": "array"}
    if origin in (set, frozenset, collections.abc.Set):
        return {"type": "array", "items": schema_of(args[0]), "uniqueItems": True}
    if origin in (dict, collections.abc.Mapping):
        if args[0] is not str:
            raise TypeError(f"{hint!r}: the keys of a JSON object are texts")
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    raise TypeError(f"{hint!r} has no JSON Schema")


def _limited(schema: Schema, limits: Tuple[Any, ...]) -> Schema:
    """The schema with what Annotated says: our limits, those of the package
    annotated-types, fields of pydantic, and a text as the description."""
    schema = dict(schema)
    for limit in limits:
        if isinstance(limit, str):
            schema["description"] = limit
        elif isinstance(limit, Range):
            _put(schema, minimum=limit.minimum, maximum=limit.maximum)
        elif isinstance(limit, Length):
            kind = "Items" if schema.get("type") == "array" else "Length"
            _put(schema, **{"min" + kind: limit.minimum, "max" + kind: limit.maximum})
        elif isinstance(limit, Pattern):
            schema["pattern"] = limit.regex
        else:
            schema = _limited(schema, tuple(getattr(limit, "metadata", ())))
            kind = "Items" if schema.get("type") == "array" else "Length"
            names = {
                "ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "multiple_of": "multipleOf",
                "min_length": "min" + kind, "max_length": "max" + kind, "pattern": "pattern", "description": "description",
            }  # fmt: skip
            _put(schema, **{word: getattr(limit, name, None) for name, word in names.items()})
    return schema


def _put(schema: Schema, **words: Any) -> None:
    schema.update({word: value for word, value in words.items() if value is not None})


def _is_union(origin: Any) -> bool:
    return origin is Union or getattr(origin, "__name__", "") == "UnionType"


def fields_of(hint: Any) -> Optional[List[Field]]:
    """The fields of a dataclass or TypedDict, None for others."""
    if not isinstance(hint, type):
        return None
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint, include_extras=True)
        return [_dataclass_field(f, hints[f.name]) for f in dataclasses.fields(hint) if f.init]
    required = getattr(hint, "__required_keys__", None)
    if required is None:
        return None
    hints = typing.get_type_hints(hint)
    return [Field(name, t, name in required) for name, t in hints.items()]


def _dataclass_field(f: "dataclasses.Field[Any]", hint: Any) -> Field:
    if f.default is not dataclasses.MISSING:
        return Field(f.name, hint, False, f.default)
    return Field(f.name, hint, f.default_factory is dataclasses.MISSING)


def _pydantic_schema(hint: Any) -> Optional[Schema]:
    make = getattr(hint, "model_json_schema", None) or getattr(hint, "schema", None)
    if not callable(make) or not (hasattr(hint, "model_validate") or hasattr(hint, "parse_obj")):
        return None
    made: Schema = dict(make())  # pydantic 1 keeps it
    definitions = made.pop("$defs", None) or made.pop("definitions", None) or {}
    inlined: Schema = _inline(made, definitions, ())
    return inlined


def _inline(node: Any, definitions: Schema, inside: Tuple[str, ...]) -> Any:
    """A schema with its definitions in place of the references to them: it becomes a
    part of another, where they would lead nowhere."""
    if isinstance(node, list):
        return [_inline(n, definitions, inside) for n in node]
    if not isinstance(node, dict):
        return node
    name = str(node.get("$ref", "")).rpartition("/")[2]
    if name in inside:
        raise TypeError(f"{name} holds itself: such a model cannot be a param or result")
    if name in definitions:
        rest = {k: v for k, v in node.items() if k != "$ref"}
        return {**_inline(definitions[name], definitions, (*inside, name)), **rest}
    return {k: _inline(v, definitions, inside) for k, v in node.items()}


def from_json(hint: Any, value: Any, path: str) -> Any:
    """The value of a type that JSON has. InvalidParameter names the place that does not fit."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        inner = from_json(args[0], value, path)
        _check(value, schema_of(hint), path)
        return inner
    if origin is typing.Literal:
        if not any(value == a and type(value) is type(a) for a in args):
            raise InvalidParameter.at(path, f"must be one of {', '.join(map(repr, args))}")
        return value
    if _is_union(origin):
        return _one_of(args, value, path)
    if origin is not None or hint in (list, tuple, set, dict):
        return _collection(hint, origin or hint, args, value, path)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _member(hint, value, path)
    fields = fields_of(hint)
    if fields is not None:
        values = object_from_json(fields, value, path)
        return hint(**values) if dataclasses.is_dataclass(hint) else values
    validate = getattr(hint, "model_validate", None) or getattr(hint, "parse_obj", None)
    if validate is not None:
        return _pydantic(validate, value, path)
    return _plain(hint, value, path)


def object_from_json(fields: List[Field], value: Any, path: str) -> Dict[str, Any]:
    """The values of an object's fields; those that are left out are missing here, too."""
    if not isinstance(value, dict):
        raise InvalidParameter.at(path, "must be an object")
    known = {f.name for f in fields}
    for name in value:
        if name not in known:
            raise InvalidParameter.at(f"{path}.{name}", "is unknown")
    values: Dict[str, Any] = {}
    for f in fields:
        if f.name in value:
            values[f.name] = from_json(f.type, value[f.name], f"{path}.{f.name}")
        elif f.required:
            raise InvalidParameter.at(f"{path}.{f.name}", "is missing")
    return values


def _one_of(args: Tuple[Any, ...], value: Any, path: str) -> Any:
    first: Optional[InvalidParameter] = None
    for a in args:
        try:
            return from_json(a, value, path)
        except InvalidParameter as e:
            first = first or e
    raise first or InvalidParameter.at(path, "does not fit")


def _collection(hint: Any, origin: Any, args: Tuple[Any, ...], value: Any, path: str) -> Any:
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            raise InvalidParameter.at(path, "must be an object")
        return {k: from_json(args[1], v, f"{path}.{k}") for k, v in value.items()} if args else value
    if not isinstance(value, list):
        raise InvalidParameter.at(path, "must be a list")
    if origin is tuple and args and args[-1] is not Ellipsis:
        if len(value) != len(args):
            raise InvalidParameter.at(path, f"must have {len(args)} items, has {len(value)}")
        return tuple(from_json(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(args, value)))
    items = [from_json(args[0], v, f"{path}[{i}]") for i, v in enumerate(value)] if args else value
    kind = {tuple: tuple, set: set, frozenset: frozenset, collections.abc.Set: set}.get(origin, list)
    return kind(items)


def _member(hint: Any, value: Any, path: str) -> Any:
    for member in hint:
        if to_json(member.value) == value:
            return member
    raise InvalidParameter.at(path, f"must be one of {', '.join(repr(m.value) for m in hint)}")


def _pydantic(validate: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return validate(value)
    except ValueError as e:  # pydantic's own is one
        told: Callable[[], List[Dict[str, Any]]] = getattr(e, "errors", list)
        first = told()[:1]
        where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in (first[0]["loc"] if first else ()))
        raise InvalidParameter.at(path + where, first[0]["msg"] if first else str(e)) from None


_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "null"}


def _plain(hint: Any, value: Any, path: str) -> Any:
    if hint in (Any, object):
        return value
    if hint is None:
        hint = type(None)
    if hint is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # devices that know floating point only write 3.0
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in _NAMES:
        if type(value) is not hint or isinstance(value, float) and not math.isfinite(value):
            raise InvalidParameter.at(path, f"must be {_NAMES[hint]}")
        return value
    try:
        if hint is bytes and isinstance(value, str):
            return base64.b64decode(value, validate=True)
        if hint in (datetime.datetime, datetime.date) and isinstance(value, str):
            return hint.fromisoformat(value.replace("Z", "+00:00") if hint is datetime.datetime else value)
    except (ValueError, binascii.Error) as e:
        raise InvalidParameter.at(path, str(e)) from None
    raise InvalidParameter.at(path, f"does not fit {getattr(hint, '__name__', hint)}")


def _check(value: Any, schema: Schema, path: str) -> None:
    """Hold a value to the limits of a schema."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below, step = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"), schema.get("multipleOf")
        if low is not None and value < low or above is not None and value <= above:
            raise InvalidParameter.at(path, f"must be at least {low}" if low is not None else f"must be more than {above}")
        if high is not None and value > high or below is not None and value >= below:
            raise InvalidParameter.at(path, f"must be at most {high}" if high is not None else f"must be less than {below}")
        if step and abs(value / step - round(value / step)) > 1e-9:
            raise InvalidParameter.at(path, f"must be a multiple of {step}")
    if isinstance(value, (str, list)):
        kind, unit = ("Items", "items") if isinstance(value, list) else ("Length", "characters")
        low, high = schema.get("min" + kind), schema.get("max" + kind)
        if low is not None and len(value) < low or high is not None and len(value) > high:
            raise InvalidParameter.at(path, f"must have {low or 0} to {high if high is not None else 'any number of'} {unit}")
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        raise InvalidParameter.at(path, f"must match {schema['pattern']}")


def to_json(value: Any) -> Any:
    """A value as JSON has it: dataclasses, enums, times, bytes, pydantic models and what they hold."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value)
    if isinstance(value, (int, float)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, collections.abc.Mapping):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json(v) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "dict") and hasattr(value, "json"):
        return to_json(value.dict())
    raise TypeError(f"{type(value).__name__} is not JSON")
