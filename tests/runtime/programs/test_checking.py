"""Checks of recorded runs against a program as it is now."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard import Agent, ScriptedModel, program
from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.immutable import Json
from callboard.runtime.programs.checking import RunCheck, check_run, programs_of
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.sanitize import to_json
from tests.actors.harness import AgentHarness
from tests.runtime.programs.kit import work

Body = Callable[[ProgramContext, str], Awaitable[object]]


def made(body: Body) -> Program[Any]:
    @program(name="lead", tools=[work])
    async def lead(ctx: ProgramContext, prompt: str) -> object:
        return await body(ctx, prompt)

    return lead


async def plain(ctx: ProgramContext, prompt: str) -> object:
    return await ctx.call(work, n=1)


async def changed(ctx: ProgramContext, prompt: str) -> object:
    return await ctx.call(work, n=2)


def said(body: Body = plain) -> list[Json]:
    """Record the first step of a run."""
    run = ProgramRun(made(body).model.main_of(Json(b'"go"'), lambda most: ()), "1.s.host")
    step = run.step((), 1_700_000_000_000).content()
    run.stop()
    return [to_json({"role": "user", "content": "go"}), Json(b'{"role":"assistant","content":%b}' % step)]


def test_a_run_that_is_repeated_counts_its_steps() -> None:
    assert check_run(made(plain), "lead", "host.1", said()) == RunCheck("host.1", "lead", "ok", 1)


def test_a_run_that_differs_says_where() -> None:
    found = check_run(made(changed), "lead", "host.1", said())
    assert found == RunCheck(
        "host.1", "lead", "diverged", 1, 1, 'asked work({"n":1})', 'asked work({"n":2})', by_chance=False
    )
    assert found.line() == (
        'host.1 (lead): step 1 differs; recorded: asked work({"n":1}); now: asked work({"n":2})'
    )


def test_a_run_that_differs_by_chance_says_so() -> None:
    numbers = iter([7, 8])

    async def chance(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(work, n=next(numbers))

    found = check_run(made(chance), "lead", "host.1", said())
    assert found.by_chance
    assert found.line().endswith("; it depends on chance: executed twice, it does two things")


def test_a_program_that_is_gone_is_missing() -> None:
    found = check_run(None, "lead", "host.1", said())
    assert (found.result, found.line()) == ("missing", "host.1 (lead): there is no program 'lead' any more")
    assert (found.steps, found.step, found.recorded, found.now, found.by_chance) == (0, 0, "", "", False)


@pytest.mark.parametrize("messages", [[], said()[:1]])
def test_a_run_without_steps_is_as_recorded(messages: list[Json]) -> None:
    found = check_run(made(changed), "lead", "host.1", messages)
    assert (found.result, found.steps, found.line()) == ("ok", 0, "host.1 (lead): 0 steps as recorded")


def test_actors_that_are_no_agents_are_no_programs() -> None:
    assert programs_of({"supervisor": object(), "host": object()}) == []


def test_the_programs_that_run_are_checked_or_all_of_them_if_none_runs() -> None:
    def agent(address: str, host: Agent) -> AgentState:
        harness = AgentHarness(address)
        harness.begins(who=host.profile(), prompt=address)
        return harness.state

    clerk = agent("host.1", Agent("clerk", model=ScriptedModel([])))
    running = {"host": agent("host", made(plain)), "host.1": clerk, "host.2": initial_agent("host.2")}
    (host,) = programs_of(running)
    assert (host.address, host.program) == ("host", "lead")
    assert [bytes(one) for one in host.messages] == [b'{"role":"user","content":"host"}']
    ended = {"host": replace(running["host"], phase="idle"), "host.1": clerk}
    assert [one.address for one in programs_of(ended)] == ["host"]
    assert programs_of(ended, only_running=True) == []
    both = {**ended, "host.3": agent("host.3", made(plain))}
    assert [one.address for one in programs_of(both)] == ["host.3"]
