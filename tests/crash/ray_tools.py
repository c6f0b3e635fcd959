"""The tools on Ray of the tests, and their agent: they run on the nodes, by the name of this module."""

import os
import signal
import time

from callboard.actors.protocol.errors import ToolError
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.agent import Agent
from callboard.runtime.cluster.ray_tools import ray_call, ray_options
from callboard.runtime.models.scripted import ScriptedModel, Step, call, calls, say
from callboard.runtime.tools.tool import tool

ON_NODE = ray_options(num_cpus=1)


def did(what: str) -> None:
    """Note an effect."""
    deeds = os.open(os.environ["CLUSTER_DEEDS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(deeds, f"{what} {ray_call().session_id} {os.getpid()}\n".encode())
    os.close(deeds)


@tool(effect="read", on=ON_NODE)
def add(a: int, b: int) -> dict[str, int | str]:
    """Add on a node."""
    return {"sum": a + b, "key": ray_call().idempotency_key, "pid": os.getpid()}


@tool(effect="read", on=ON_NODE)
async def later(a: int) -> int:
    """Add on a node, as an async function."""
    return a + 1


@tool(effect="read", on=ON_NODE)
def fails() -> str:
    """Fail on a node."""
    raise ToolError("the disk of the node is full")


@tool(effect="read", on=ON_NODE)
def breaks() -> str:
    """Fail with an error of Python on a node."""
    raise KeyError("nothing here")


class Awkward(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, *, status: int) -> None:
        super().__init__(f"status {status}")


@tool(effect="read", on=ON_NODE)
def awkward() -> str:
    """Fail with an exception that cannot travel."""
    raise Awkward(status=7)


@tool(effect="write", on=ON_NODE)
def dies() -> str:
    """End the process of the node in the middle of an effect."""
    did("dies")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(effect="write", on=ON_NODE, timeout_s=1)
def sleeps() -> str:
    """Sleep for longer than its time limit."""
    did("sleeps")
    time.sleep(60)
    did("woke up")
    return "never"


@tool(effect="write", on=ON_NODE, timeout_s=1)
def holds_on() -> str:
    """Ignore the first cancellation, as a library in C does."""
    did("holds on")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            time.sleep(60)
        except BaseException:
            continue
    did("woke up")
    return "never"


FIRST = [
    call("add", a=1, b=2),
    call("later", a=1),
    call("fails"),
    call("breaks"),
    call("dies"),
    call("awkward"),
]
SECOND = [call("sleeps"), call("holds_on")]
"""They have a short time limit, so they come once the nodes have started processes."""


def reply(request: ModelRequest) -> Step:
    """Call each tool once, in two turns."""
    return {1: calls(*FIRST), 2: calls(*SECOND)}.get(request.turn) or say("all done")


host = Agent(
    "host", tools=[add, later, fails, breaks, dies, awkward, sleeps, holds_on], model=ScriptedModel(reply)
)
