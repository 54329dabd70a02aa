"""Groups and channels of Caps, and approvals."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

from ._mqtt import Message
from .subscription import Subscription

if TYPE_CHECKING:
    from .client import Client

log = logging.getLogger("aibridge")

HandleJSON = Callable[[Dict[str, Any]], None]


def json_handler(handle: HandleJSON) -> Callable[[Message], None]:
    """A handler of messages that passes on the JSON objects in them; an empty
    message is an empty object."""

    def handler(m: Message) -> None:
        value = json.loads(m.payload) if m.payload else {}
        if isinstance(value, dict):
            handle(value)

    return handler


def data_type(value: Any) -> str:
    """What group.data.set calls the type of a value."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", tuple: "array"}
    return kinds.get(type(value), "object")


class Group:
    """A group of a Cap. It is born with its first member."""

    def __init__(self, client: "Client", cap_id: str, group_id: str) -> None:
        self._client = client
        self.cap_id = cap_id
        self.group_id = group_id

    def _call(self, command: str, **params: Any) -> Any:
        given = {k: v for k, v in params.items() if v is not None}
        return self._client.call(command, {"cap_id": self.cap_id, "group_id": self.group_id, **given})

    def add(self, skill_id: str, role: str, attributes: Optional[Mapping[str, str]] = None) -> None:
        self._call("group.member.add", skill_id=skill_id, role=role, attributes=attributes)

    def remove(self, skill_id: str) -> None:
        self._call("group.member.remove", skill_id=skill_id)

    def get(self, key: str) -> Any:
        """The value that the members share under a key. NotFound if there is none."""
        return self._call("group.data.get", data_key=key)["data_value"]

    def set(self, key: str, value: Any, *, revision: Optional[int] = None) -> int:
        """Share a value and return its revision. With a revision it is only written if
        the value still has that one, else RevisionConflict; 0 is for a new key."""
        written = self._call("group.data.set", data_key=key, data_value=value, data_type=data_type(value), revision=revision)
        return int(written["revision"])

    def watch(self, handle: Callable[[str, Optional[Any]], None], key: str = "+") -> Subscription:
        """Hear the shared values, now and when they change; None for one that is gone."""

        def handler(m: Message) -> None:
            value = json.loads(m.payload)["data_value"] if m.payload else None
            handle(m.topic.rpartition("/")[2], value)

        return self._client.subscribe(f"{self._client.root}/cap/{self.cap_id}/data/{self.group_id}/{key}", handler)

    def dispatch(
        self,
        capability: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        target: Optional[Mapping[str, Any]] = None,
        completion: Any = None,
        deadline: float = 60.0,
    ) -> str:
        """Have all members, or those of the target, do something. The task's id is for
        :meth:`Client.follow`. deadline is in seconds."""
        started = self._call(
            "group.dispatch",
            capability_id=capability,
            params=dict(params or {}),
            target=target,
            completion=completion,
            deadline_ms=int(deadline * 1000),
        )
        return str(started["task_id"])


class Channel:
    """The channel of a Cap: what its members say to each other."""

    def __init__(self, client: "Client", cap_id: str) -> None:
        self._client = client
        self.cap_id = cap_id

    def _topic(self, topic: str) -> str:
        return f"{self._client.root}/cap/{self.cap_id}/message/{topic}"

    def publish(self, topic: str, payload: Any = b"", *, qos: int = 1) -> None:
        """Say something under a topic of the channel's own."""
        self._client.publish(self._topic(topic), payload, qos=qos)

    def subscribe(self, filter: str, handle: Callable[[Message], None]) -> Subscription:
        """Hear what is said; "#" hears all. The topics are those in the channel."""
        prefix = self._topic("")
        return self._client.subscribe(prefix + filter, lambda m: handle(m._replace(topic=m.topic[len(prefix) :])))

    def events(self, handle: HandleJSON) -> Subscription:
        """Hear of members, links and data."""
        return self._client.subscribe(f"{self._client.root}/cap/{self.cap_id}/event", json_handler(handle))


class Approvals:
    """Calls of models that wait for a person (docs/approvals.md)."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    def pending(self) -> List[Dict[str, Any]]:
        """Those that wait, and that the caller may decide."""
        found = self._client.call("approval.list", {"state": "pending", "mine": True})["approvals"]
        return list(found)

    def approve(self, approval: Mapping[str, Any], reason: str = "") -> None:
        """Let the call of an approval be run, exactly as it is shown there."""
        self._decide(approval, "approve", reason)

    def deny(self, approval: Mapping[str, Any], reason: str = "") -> None:
        """Refuse the call of an approval; the model reads the reason."""
        self._decide(approval, "deny", reason)

    def _decide(self, approval: Mapping[str, Any], decision: str, reason: str) -> None:
        params = {"approval_id": approval["approval_id"], "nonce": approval["nonce"], "decision": decision}
        self._client.call("approval.decide", {**params, "reason": reason} if reason else params)

    def watch(self, handle: HandleJSON) -> Subscription:
        """Hear of every step of every approval: the event, whose data is the approval."""
        return self._client.events("approval", handle)
