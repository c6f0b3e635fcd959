"""Sessions that wait for their code: what they still do, what a mismatch costs, and the time of waiting."""

import asyncio
import traceback
from typing import Any, Final

import pytest
from msgspec.structs import replace

from callboard import (
    Agent,
    Limits,
    Outcome,
    ProgramContext,
    Runtime,
    ScriptedModel,
    call,
    calls,
    program,
    tool,
)
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.actors.protocol.wishes import wish_in
from callboard.errors import CallFailed
from callboard.log import MemoryLog
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Reply
from callboard.runtime.programs.program import Program
from tests.virtual_clock import run_virtually

SPENT: Final = Usage(input_tokens=7, output_tokens=5)
ONE_ATTEMPT: Final = Limits(max_model_attempts=1)


@tool(effect="read")
async def look(item: str) -> str:
    """Look."""
    await asyncio.sleep(10)
    return f"seen {item}"


WRITTEN: list[str] = []


@tool(effect="write")
async def save(item: str) -> str:
    """Save."""
    await asyncio.sleep(100)
    WRITTEN.append(item)
    return f"saved {item}"


def clerk(numbers: list[int] | None = None) -> Program[Any]:
    """Return a sub-agent. numbers: of its executions, if it asks for another item in each."""

    @program(name="clerk", description="Looks.", tools=[look], limits=ONE_ATTEMPT)
    async def clerk(ctx: ProgramContext, prompt: str) -> str:
        if numbers is not None:
            numbers.append(len(numbers))
        found = await ctx.call(look, item=str(numbers[-1] if numbers else 0))
        return f"{found}, {await ctx.call(look, item='b')}"

    return clerk


def host_of(below: Program[Any]) -> Agent:
    """Return a model's agent above the clerk, a worker, and a tool that writes."""
    worker = Agent("worker", description="Works.")
    return Agent("host", instructions="Delegate.", agents=[below, worker], tools=[save])


async def answer(request: ModelRequest) -> Reply | str:
    """Let the host ask everybody at once, and each worker think for the seconds of its prompt."""
    if request.address == "host":
        if request.turn > 1:
            return "done"
        return calls(
            call("task", agent="clerk", prompt="go"),
            call("task", agent="worker", prompt="10.5"),
            call("task", agent="worker", prompt="500"),
            call("save", item="a"),
        )
    await asyncio.sleep(float(str(request.conversation[0]["content"])))
    return Reply("thought", usage=SPENT)


def events_of(log: MemoryLog) -> list[Event]:
    recording = Recording.open(MemoryReader(log), "s")
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


def turns_of_clerk(events: list[Event]) -> list[TurnRequested]:
    wishes = [wish_in(one.body) for one in events if one.sender == "host.1"]
    return [wish for wish in wishes if wish is not None]


async def left_at_wake(log: MemoryLog, numbers: list[int]) -> None:
    """Run a session until the clerk, which lost its parked run, differs."""
    below = clerk(numbers)
    async with Runtime(log, model=ScriptedModel(answer)) as runtime:
        host = host_of(below)
        session = await runtime.open(host, session_id="s")
        asked = asyncio.ensure_future(session.ask("go", request_id="one"))
        await asyncio.sleep(5)
        below.model.ended("s")
        with pytest.raises(Diverged, match=r"s, host\.1: step 1 .*depends on chance"):
            await asked
        executed = len(numbers)
        with pytest.raises(Diverged):
            await runtime.resume("s", host)
        with pytest.raises(Diverged):
            await runtime.open(host, session_id="s", resume=True)
        assert len(numbers) == executed, "the process remembers, and tries no object twice"
        (row,) = [row async for row in runtime.sessions(status="unfinished")]
        assert row.session_id == "s"


async def gone_on(log: MemoryLog) -> Outcome[Any]:
    async with Runtime(log, model=ScriptedModel(answer)) as runtime:
        session = await runtime.resume("s", host_of(clerk()))
        outcome = await session.outcome
        await session.close()
    return outcome


def test_the_call_that_differs_costs_nothing_and_the_others_get_a_grace() -> None:
    async def live() -> None:
        log, plain = MemoryLog(), MemoryLog()
        WRITTEN.clear()
        await left_at_wake(log, [])
        events = events_of(log)
        assert WRITTEN == ["a"], "a running write is awaited"
        saved = [one.body for one in events if isinstance(one.body, ToolReturned) and one.recipient == "host"]
        assert [one.status for one in saved] == ["ok"]
        replies = {one.recipient: one.body for one in events if isinstance(one.body, ModelReplied)}
        assert (replies["host.1"].status, replies["host.1"].usage) == ("detached", ZERO)
        assert (replies["host.2"].status, replies["host.2"].usage) == ("ok", SPENT), "within the grace"
        assert (replies["host.3"].status, replies["host.3"].usage) == ("detached", ZERO), (
            "cut off with the session"
        )

        outcome = await gone_on(log)
        turns = turns_of_clerk(events_of(log))
        assert [(one.turn, one.attempt) for one in turns] == [(1, 1), (2, 1), (2, 2), (3, 1)]
        async with Runtime(plain, model=ScriptedModel(answer)) as runtime:
            expected = await runtime.run(host_of(clerk()), "go", session_id="s")
        assert (outcome.kind, outcome.text) == (expected.kind, expected.text)
        twice = expected.usage.calls + 1
        assert outcome.usage == replace(expected.usage, calls=twice), "of the worker that was cut off"
        assert WRITTEN == ["a", "a"], "once in each session"

    run_virtually(live())


def visitor(*, has_fee: bool) -> Program[Any]:
    @program(name="visitor", tools=[look])
    async def visitor(ctx: ProgramContext, prompt: str) -> str:
        found = await ctx.call(look, item="a")
        if has_fee:
            found += await ctx.call(look, item="fee")
        await ctx.sleep(100)
        return found

    return visitor


def test_a_run_that_went_on_under_new_code_waits_for_it_after_a_rollback() -> None:
    """The old code fits the first steps and not those that the new code added."""

    async def live() -> None:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(visitor(has_fee=False), session_id="s")
            await session.submit("go")
            await asyncio.sleep(5)
            await session.detach(0)
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", visitor(has_fee=True))
            await asyncio.sleep(50)
            await session.detach(0)
        before = events_of(log)
        async with Runtime(log) as runtime:
            with pytest.raises(Diverged, match=r'Recorded: asked look\({"item":"fee"}\)'):
                await runtime.resume("s", visitor(has_fee=False))
        assert events_of(log) == before
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", visitor(has_fee=True))
            assert (await session.outcome).text == "seen aseen fee"
            await session.close()

    run_virtually(live())


@tool(effect="read")
async def fails(item: str) -> str:
    """Fail."""
    raise ConnectionError(f"no {item}")


def test_the_trace_of_an_error_is_the_same_when_the_program_is_executed_again() -> None:
    @program(tools=[look, fails])
    async def reporter(ctx: ProgramContext, prompt: str) -> str:
        try:
            await ctx.call(fails, item="service")
        except CallFailed as error:
            told = [traceback.format_exc(), repr(error), *traceback.format_exception(error)]
            await asyncio.gather(*(ctx.call(look, item=text) for text in told))
        await ctx.sleep(100)
        return "told"

    async def live() -> None:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(reporter, session_id="s")
            await session.submit("go")
            await asyncio.sleep(50)
            await session.detach(0)
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", reporter)
            assert (await session.outcome).text == "told"
            await session.close()

    run_virtually(live())


@program
async def sleeper(ctx: ProgramContext, prompt: str) -> list[float]:
    began, late = ctx.now(), 0.0
    try:
        async with asyncio.timeout(60):
            await ctx.sleep(100)
    except TimeoutError:
        late = (ctx.now() - began).total_seconds()
    await ctx.sleep(40)
    return [late, (ctx.now() - began).total_seconds()]


@program(name="sleeper")
async def other(ctx: ProgramContext, prompt: str) -> list[float]:
    return []


@pytest.mark.parametrize(("down", "waits"), [(0, 1_000), (30, 1_000), (30, 0.5)])
def test_the_time_of_waiting_is_left_out_of_deadlines_timeouts_and_sleeps(down: float, waits: float) -> None:
    """The time before a wrong deploy counts, because no option says otherwise."""

    async def live() -> None:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(sleeper, session_id="s")
            await session.submit("go", limits=Limits(deadline_s=150))
            await asyncio.sleep(10)
            await session.detach(0)
        await asyncio.sleep(down)
        for _ in range(2):
            async with Runtime(log) as runtime:
                with pytest.raises(Diverged):
                    await runtime.resume("s", other)
            await asyncio.sleep(waits / 2)
        async with Runtime(log) as runtime:
            session = await runtime.resume("s", sleeper)
            outcome = await session.outcome
            await session.close()
        assert outcome.structured_output == pytest.approx([60 + waits, 100 + waits], abs=0.01)
        (resumed,) = [one.body for one in events_of(log) if isinstance(one.body, Resumed)]
        assert (resumed.extend_ms, resumed.left_out_ms) == pytest.approx((1_000 * waits,) * 2, abs=10)

    run_virtually(live())
