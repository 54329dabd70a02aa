"""A device under test: the contract of docs/sdk-conformance.md."""

import itertools
import os
from typing import Annotated, Any, Dict, List, Optional

from aibridge import Agent, BridgeError, Invocation, Range, Rejected

agent = Agent(os.environ["AIBRIDGE_AGENT_ID"])
skill = agent.skill("conformance")
counter = itertools.count(1)

Term = Annotated[int, Range(-1000, 1000)]
Milliseconds = Annotated[int, Range(0)]


@skill.capability(effect="read")
def echo(value: Any = None) -> Dict[str, Any]:
    return {"value": value}


@skill.capability(effect="read")
def add(a: Term, b: Term) -> Dict[str, int]:
    return {"sum": a + b}


@skill.capability
def slow(call: Invocation, ms: Milliseconds) -> Dict[str, int]:
    call.sleep(ms / 1000)
    return {"slept_ms": ms}


@skill.capability
def progress(call: Invocation, steps: Annotated[int, Range(1)], ms: Milliseconds = 0) -> Dict[str, int]:
    for step in range(1, steps + 1):
        call.sleep(ms / 1000)
        call.progress(100 * step / steps, f"step {step} of {steps}")
    return {"steps": steps}


@skill.capability
async def stream(call: Invocation, pieces: List[str]) -> str:
    for piece in pieces:
        call.delta(text=piece)
    return "".join(pieces)


@skill.capability
def count() -> Dict[str, int]:
    return {"count": next(counter)}


@skill.capability
def fail(code: str = "", message: str = "", details: Optional[Dict[str, Any]] = None) -> None:
    if not code:
        raise RuntimeError(message)
    raise BridgeError(message, code=code, **(details or {}))


@skill.capability
def reject(reason: str = "not now") -> None:
    raise Rejected(reason)


@skill.capability
def fill(bytes: Milliseconds) -> Dict[str, str]:
    return {"text": "x" * bytes}


@skill.capability
def ask(command: str, params: Optional[Dict[str, Any]] = None) -> Any:
    return agent.client.call(command, params)


@skill.capability
def ask_seen(command: str, min_revision: Annotated[int, Range(0)], params: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    revisions = [0]
    result = agent.client.call(command, params, min_revision=min_revision, on_revision=revisions.append)
    return {"result": result, "revision": revisions[-1]}


agent.run()
