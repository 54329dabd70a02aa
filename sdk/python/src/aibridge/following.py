"""Following a task to its end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator

from . import errors

if TYPE_CHECKING:
    from .client import Client

ENDED = ("succeeded", "complete", "partial", "failed", "cancelled")
_LOOK = 5.0  # seconds of silence after which the task is looked at


def follow(client: "Client", task_id: str, timeout: float) -> Iterator[Dict[str, Any]]:
    """Yield the events of a task, and at the end what task.get says of it.

    Events may be lost with a connection; the task's state is not: it is looked at
    before the first event, after every silence and at the end.
    """
    deadline = time.monotonic() + timeout
    with client.subscribe(f"{client.root}/task/{task_id}/event") as events:
        while True:
            task: Dict[str, Any] = client.call("task.get", {"task_id": task_id})
            if task.get("state") in ENDED:
                yield task
                return
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise errors.TimedOut(f"the task {task_id} has not ended")
                m = events.get(min(left, _LOOK))
                if m is None:
                    break
                event = json.loads(m.payload)
                yield event
                if str(event.get("event", "")).rpartition(".")[2] in ENDED:
                    break
