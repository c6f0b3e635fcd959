"""Agents of the OpenAI Agents SDK for tests, and the model that answers them."""

from typing import Any

import agents
from agents import function_tool
from pydantic import BaseModel

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import ScriptedModel, call, calls
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.agents import turns_in


class Verdict(BaseModel):
    """The output of the agent."""

    good: bool
    why: str


def expert(ran: list[str] | None = None) -> agents.Agent[Any]:
    """Make an agent with tools of every kind."""
    done = [] if ran is None else ran

    @function_tool
    def add(a: int, b: int) -> int:
        """Add."""
        done.append(f"add {a}")
        if a == 8:
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
        instructions="Be terse.",
        tools=[add, save],
        output_type=Verdict,
    )


def policy(request: ModelRequest) -> Any:
    """Answer: tools of all kinds at once, then an output."""
    if turns_in(request) == 0:
        return calls(call("add", a=2, b=3), call("save", key="k"), call("add", a=8, b=1))
    return call("final_output", good=True, why="5")


def run(brain: Any, answers: Any = policy, prompt: Any = "2+3?", **more: Any) -> Any:
    """Run a brain as a host, and return its outcome."""
    runtime = Runtime(more.pop("log", ":memory:"), model=ScriptedModel(answers), deps=more.pop("deps", None))
    return runtime.run_sync(brain, prompt, session_id="s", **more)
