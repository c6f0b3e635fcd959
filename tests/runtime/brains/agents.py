"""Agents of Pydantic AI for tests, and the model that answers them."""

from typing import Any

from pydantic import BaseModel
from pydantic_ai import Agent as FrameworkAgent
from pydantic_ai import ModelRetry, RunContext

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import call, calls
from tests.runtime.brains.kit import WORDS, turns_in


class Verdict(BaseModel):
    """The output of the agent."""

    good: bool
    why: str


def expert(ran: list[str] | None = None, words: str = WORDS) -> FrameworkAgent[Any, Verdict]:
    """Make an agent with tools of every kind, and a validator that is never content at first."""
    done = [] if ran is None else ran
    agent: FrameworkAgent[Any, Verdict] = FrameworkAgent(
        output_type=Verdict, instructions=words, retries=3, name="expert", description="Knows."
    )

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        """Add."""
        done.append(f"add {a}")
        if a == 9:
            raise ModelRetry("not nine")
        if a == 8:
            raise ValueError("eight")
        return a + b

    @agent.tool
    async def save(ctx: RunContext[Any], key: str) -> str:
        """Save."""
        done.append(f"save {key} {ctx.deps}")
        return f"saved {key}"

    @agent.output_validator
    def short(verdict: Verdict) -> Verdict:
        done.append("validate")
        if len(verdict.why) > 12:
            raise ModelRetry("shorter")
        return verdict

    return agent


def policy(request: ModelRequest) -> Any:
    """Answer: tools of all kinds at once, then an output that is too long, then a good one."""
    turn = turns_in(request)
    if turn == 0:
        return calls(
            call("add", a=2, b=3), call("save", key="k"), call("add", a=9, b=1), call("add", a=8, b=1)
        )
    if turn == 1:
        return call("final_result", good=True, why="a much too long reason")
    return call("final_result", good=True, why="5")
