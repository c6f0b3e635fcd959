"""Agents of the OpenAI Agents SDK for tests, and the model that answers them."""

import dataclasses
from typing import Any

import agents
from agents import function_tool
from pydantic import BaseModel

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import call, calls
from tests.runtime.brains.kit import WORDS, turns_in


class Verdict(BaseModel):
    """The output of the agent."""

    good: bool
    why: str


def expert(ran: list[str] | None = None, words: str = WORDS) -> agents.Agent[Any]:
    """Make an agent with tools of every kind."""
    done = [] if ran is None else ran

    @function_tool
    def add(a: int, b: int) -> int:
        """Add."""
        done.append(f"add {a}")
        if a in (8, 9):
            raise ValueError("eight")
        return a + b

    @function_tool
    async def save(ctx: agents.RunContextWrapper[Any], key: str) -> str:
        """Save."""
        done.append(f"save {key} {ctx.context}")
        return f"saved {key}"

    return agents.Agent(
        "The expert",
        handoff_description="Knows.",
        instructions=words,
        tools=[add, save],
        output_type=Verdict,
    )


def desk(ran: list[str], words: str) -> agents.Agent[Any]:
    """Make an agent that hands off to the expert."""
    second = dataclasses.replace(expert(ran, words), name="expert")
    return agents.Agent("desk", instructions=words, handoffs=[second], output_type=Verdict)


def policy(request: ModelRequest) -> Any:
    """Answer: tools of all kinds at once, then an output."""
    if turns_in(request) == 0:
        return calls(call("add", a=2, b=3), call("save", key="k"), call("add", a=8, b=1))
    return call("final_output", good=True, why="5")
