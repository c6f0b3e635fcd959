"""Programs of recorded sessions: those that run, and those that ended long ago."""

import asyncio

import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, call, program, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.cli.recorded_programs import recorded_programs
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.programs.checking import RecordedAgent, check_run


@tool(effect="read")
def look(n: int) -> int:
    """Look."""
    return n


@program(tools=[look])
async def sub(ctx: ProgramContext, prompt: str) -> str:
    first = await ctx.call(look, n=1)
    return f"{first}{await ctx.call(look, n=2)}"


@program(name="sub", tools=[look])
async def longer(ctx: ProgramContext, prompt: str) -> str:
    first = await ctx.call(look, n=1)
    return f"{first}{await ctx.call(look, n=2)}!"


@program(name="sub", tools=[look])
async def other(ctx: ProgramContext, prompt: str) -> str:
    return str(await ctx.call(look, n=3))


def recorded(then: Agent) -> Recording:
    """Record a session whose model delegates twice to a program and answers."""

    def answer(request: object) -> object:
        turn = getattr(request, "turn")  # noqa: B009  # a request of any model
        return call("task", agent="sub", prompt=f"part {turn}") if turn < 3 else say("done")

    log = MemoryLog()

    async def scene() -> None:
        host = Agent("host", agents=[then], model=ScriptedModel(answer))  # type: ignore[arg-type]  # of a form of its own, as in a log
        async with Runtime(log) as runtime:
            await runtime.run(host, "go", session_id="s")

    asyncio.run(scene())
    return Recording.open(MemoryReader(log), "s")


def test_sub_agents_of_a_finished_session_are_found_with_their_last_run() -> None:
    found = recorded_programs(recorded(sub))
    assert [(one.address, one.program) for one in found] == [("host.1", "sub"), ("host.2", "sub")]
    checks = [check_run(sub, one.program, one.address, one.messages) for one in found]
    assert [(one.result, one.steps) for one in checks] == [("ok", 3), ("ok", 3)]


@pytest.mark.parametrize(("now", "step"), [(longer, 3), (other, 1)])
def test_a_change_of_an_ended_sub_agent_is_found_also_in_what_it_returned(now: object, step: int) -> None:
    one, _ = recorded_programs(recorded(sub))
    check = check_run(now, one.program, one.address, one.messages)  # type: ignore[arg-type]  # of a form of its own, as in a log
    assert (check.result, check.step) == ("diverged", step)


def test_a_session_without_a_running_program_has_none_that_runs() -> None:
    assert recorded_programs(recorded(sub), only_running=True) == []


def test_a_recorded_agent_holds_its_conversation() -> None:
    one: RecordedAgent = recorded_programs(recorded(sub))[0]
    assert one.messages[0] == Json(b'{"role":"user","content":"part 1"}')
