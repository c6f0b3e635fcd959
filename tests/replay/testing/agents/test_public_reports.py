"""Tests that lie, as users of other kits have reported them, put to this one.

- A model of a test goes round its answers for all runs: https://github.com/langchain-ai/langgraph/pull/7930
- Names that are used once are kept for all runs: https://github.com/HypothesisWorks/hypothesis/issues/3690
- Code that keeps values outside of the recording does something else after a restart.
- A coroutine is never awaited: https://github.com/pytest-dev/pytest-asyncio/issues/67
- A task that a test leaves behind fails unseen: https://github.com/pytest-dev/pytest-asyncio/issues/205
"""

import asyncio
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest

from callboard import Agent, ModelRequest, ProgramContext, call, calls, program, say, tool
from callboard.errors import MisuseError
from callboard.runtime.models.scripted import Reply
from callboard.testing import BrokenRules, explore, simulate


@tool(effect="read")
def search(q: str) -> str:
    """Search."""
    return "found"


def once(name: str) -> Callable[[ModelRequest], Reply]:
    return lambda request: calls(call(name, q="x")) if request.turn == 1 else say("done")


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_model_that_goes_round_its_answers_is_noticed(size: int) -> None:
    answers = cycle([calls(call("search", q="x")), *[say("done")] * (size - 1)])
    if size == 2:  # each run has two calls: all are alike, and nothing is hidden
        assert explore(Agent("host", tools=[search]), lambda request: next(answers), runs=50).is_ok
        return
    with pytest.raises(BrokenRules, match="your code keeps state between runs"):
        explore(Agent("host", tools=[search]), lambda request: next(answers), runs=50)


def test_names_that_are_used_once_in_all_runs_are_noticed() -> None:
    used: set[str] = set()

    @tool(effect="write")
    def create(q: str) -> str:
        """Create something."""
        raise AssertionError("no campaign repeats an effect")

    def fake(q: str) -> str:
        if q in used:
            raise ValueError(f"the name {q} is used already")
        used.add(q)
        return "created"

    host, fakes = Agent("host", tools=[create]), {"create": fake}
    assert explore(host, once("create"), runs=5).is_ok
    with pytest.raises(BrokenRules, match="your code keeps state between runs"):
        explore(host, once("create"), runs=20, tools=fakes)
    used.clear()
    assert explore(host, once("create"), runs=20, tools=fakes, setup=used.clear).is_ok


@pytest.mark.parametrize("more", [{"setup": True}, {"setup": True, "faults": "all"}, {}], ids=str)
def test_a_program_that_keeps_values_outside_of_its_run_is_refused(more: dict[str, Any]) -> None:
    kept: dict[str, object] = {}

    @program(tools=[search])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        if prompt not in kept:
            kept[prompt] = await ctx.call("search", q="x")
        await ctx.call("search", q="y")
        return "done"

    if "setup" in more:
        more = {**more, "setup": kept.clear}
    says = r"the program 'host' \(host\) does not repeat its steps: step 1 .*keeps outside of its run"
    with pytest.raises(MisuseError, match=says) as refused:
        explore(host, [], runs=5, **more)
    assert "If the program was changed" not in str(refused.value)
    kept.clear()
    with pytest.raises(MisuseError, match="Recorded: asked search"):
        simulate(host, [])


def test_a_coroutine_that_a_plain_tool_returns_is_awaited() -> None:
    ran: list[str] = []

    async def work() -> str:
        ran.append("work")
        return "done by work"

    @tool(effect="read")
    def forgets(q: str) -> Any:
        """Return what should have been awaited."""
        return work()

    assert explore(Agent("host", tools=[forgets]), once("forgets"), runs=5).is_ok
    assert ran


def test_a_tool_that_leaves_a_task_behind_is_refused() -> None:
    async def fails() -> None:
        raise ValueError("unseen")

    @tool(effect="read")
    async def leaves(q: str) -> str:
        """Leave a task behind."""
        await asyncio.sleep(0)
        await asyncio.create_task(fails())
        return "ok"

    with pytest.raises(MisuseError, match="waits for something"):
        explore(Agent("host", tools=[leaves]), once("leaves"), runs=5)
