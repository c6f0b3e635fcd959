"""The memory of sub-agents that are alive together: counted in bytes that Python holds."""

import asyncio
import gc
import subprocess
import sys
import tracemalloc

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import Step
from tests.pages import ROOT

FEW, MANY = 50, 250

AGENT_BYTES_MAX = 7_150
"""The most bytes for an agent in its first model call, with its events in a log in memory.

Measured on CPython 3.11 in a process of its own: 6,800 to 6,900. A further field of a state takes 8.
"""


class Crowd:
    """A model that answers once so many agents ask it. held: the bytes that Python holds then."""

    spec = ModelSpec("crowd", 1_024)

    def __init__(self, width: int) -> None:
        self._missing = width
        self._everybody = asyncio.Event()
        self.held = 0

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        """Wait for the others."""
        self._missing -= 1
        if not self._missing:
            gc.collect()
            self.held = tracemalloc.get_traced_memory()[0]
            self._everybody.set()
        await self._everybody.wait()
        return ModelAnswer(Json(b'[{"type":"text","text":"here"}]'), "end_turn")

    async def aclose(self) -> None:
        """Have nothing to close."""


async def bytes_held(width: int) -> int:
    """Return the bytes that Python holds while this many sub-agents wait in their first model call."""
    crowd = Crowd(width)

    def policy(request: ModelRequest) -> Step:
        tasks = (call("task", agent="leaf", prompt="come") for _ in range(width))
        return calls(*tasks) if request.length == 1 else say("here")

    host = Agent("host", agents=[Agent("leaf", model=crowd)], model=ScriptedModel(policy))
    limits = Limits(max_children=width, max_tool_calls=width, max_parallel_calls=width + 1)
    async with Runtime(":memory:", limits=limits) as runtime:
        (await runtime.run(host, "go")).unwrap()
    return crowd.held


def bytes_of_one() -> float:
    """Return the bytes of one more agent, in a process that has done nothing before."""
    asyncio.run(bytes_held(FEW))  # imports modules and fills caches
    tracemalloc.start()
    few, many = asyncio.run(bytes_held(FEW)), asyncio.run(bytes_held(MANY))
    return (many - few) / (MANY - FEW)


@pytest.mark.slow
def test_a_live_sub_agent_takes_little_memory() -> None:
    code = "from tests.runtime.sessions.test_live_agents import bytes_of_one; print(bytes_of_one())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout) < AGENT_BYTES_MAX
