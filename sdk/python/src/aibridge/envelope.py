"""Envelopes: the JSON objects on the wire (docs/protocol.md#envelopes)."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any, Dict, List, Mapping, Optional

VERSION = "0.6.3"
MAX_BYTES = 1 << 20  # of a message
_MAX_DEPTH = 64

Envelope = Dict[str, Any]


def new_id() -> str:
    return str(uuid.uuid4())


def now_ms() -> int:
    return int(time.time() * 1000)


def encode(value: Any) -> bytes:
    """JSON as the bridge takes it: UTF-8, no NaN, as short as can be."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def decode(payload: bytes) -> Optional[Envelope]:
    """The envelope in a payload, None if there is none."""
    if len(payload) > 2 * MAX_BYTES:
        return None
    try:
        value = json.loads(payload.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
        if isinstance(value, dict) and _depth(value) <= _MAX_DEPTH:
            encode(value)  # an unpaired surrogate cannot be told on
            return value
    except (ValueError, RecursionError):
        pass
    return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _once(pairs: Any) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _depth(value: Any) -> int:
    """How deep a value is nested, without recursion: garbage may be deep."""
    level: List[Any] = [value]
    depth = 0
    while level and depth <= _MAX_DEPTH:
        inner: List[Any] = []
        for v in level:
            if isinstance(v, dict):
                inner.extend(v.values())
            elif isinstance(v, list):
                inner.extend(v)
        level, depth = inner, depth + 1
    return depth


def request(command: str, params: Mapping[str, Any], metadata: Mapping[str, Any], id: str) -> Envelope:
    return {
        "version": VERSION,
        "id": id,
        "timestamp": now_ms(),
        "type": "request",
        "command": command,
        "params": params,
        "metadata": metadata,
    }


def response(id: str, sender: str, trace: Optional[str], result: Any = None, error: Optional[Mapping[str, Any]] = None) -> Envelope:
    return {
        "version": VERSION,
        "id": id,
        "timestamp": now_ms(),
        "type": "response",
        "status": "success" if error is None else "failed",
        "result": {} if result is None else result,
        "error": error,
        "metadata": _metadata(sender, trace),
    }


def event(id: str, sender: str, trace: Optional[str], name: str, seq: int, data: Mapping[str, Any]) -> Envelope:
    return {
        "version": VERSION,
        "id": id,
        "timestamp": now_ms(),
        "type": "event",
        "event": name,
        "seq": seq,
        "data": data,
        "metadata": _metadata(sender, trace),
    }


def _metadata(sender: str, trace: Optional[str]) -> Dict[str, Any]:
    metadata: Dict[str, Any] = {"sender_id": sender}
    if trace:
        metadata["trace_id"] = trace
    return metadata
