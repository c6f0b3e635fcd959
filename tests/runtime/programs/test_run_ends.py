"""Live programs whose ends cannot be averted: refusals that latch, bounded questions, ends of their own.

In one process, over a kill at every event, in forks, and under an orchestrator.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

import pytest

from callboard import Agent, Limits, Outcome, ProgramContext, Runtime, ScriptedModel, program, tool
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallTool, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Usage
from callboard.errors import CallFailed, DelegationFailed, Interrupted
from callboard.log import MemoryLog
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Reply
from callboard.runtime.programs.checking import programs_of
from callboard.runtime.programs.program import Program
from callboard.runtime.programs.session_check import check_programs, finder
from tests.effort import effort
from tests.golden import golden, recorded, refused
from tests.tables import table
from tests.virtual_clock import run_virtually

Effects = Literal["recorded", "ask", "live"]

EFFECTS: Final[Sequence[Effects]] = ("recorded", "ask", "live")
SPENT: Final = Usage(input_tokens=10, output_tokens=300)
POOR: Final = Limits(tokens=1_300)
"""Enough for one question, and not for the smallest second one; nor for a first one that a kill has lost."""


class World:
    """What the code of the programs and tools did, in this process and in those before."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.written: list[str] = []
        self.asked: list[str] = []

        @tool(effect="read")
        async def look(item: str) -> str:
            """Look."""
            await asyncio.sleep(50)
            return f"seen {item}"

        @tool(effect="write")
        async def save(item: str) -> str:
            """Save."""
            self.written.append(item)
            await asyncio.sleep(100)
            return f"saved {item}"

        self.look, self.save = look, save

    async def answer(self, request: ModelRequest) -> Reply:
        self.asked.append(request.address)
        await asyncio.sleep(10)
        return Reply("yes", usage=SPENT)

    def runtime(self, log: MemoryLog) -> Runtime:
        return Runtime(log, model=ScriptedModel(self.answer))


def stubborn(world: World, item: str = "a") -> Program[Any]:
    """Return a program that swallows each refusal, asks on, and returns an answer."""

    @program(tools=[world.look, world.save], limits=POOR)
    async def stubborn(ctx: ProgramContext, prompt: str) -> str:
        async def one(work: Awaitable[object]) -> str:
            try:
                return str(await work)
            except (CallFailed, Interrupted) as error:
                world.seen.append(type(error).__name__)
                return type(error).__name__
            finally:
                world.seen.append("finally")

        beside = asyncio.gather(one(ctx.call(world.look, item="a")), one(ctx.call(world.save, item=item)))
        found: list[str] = []
        try:
            found.append(await ctx.ask_model("first"))
            found.append(await ctx.ask_model("second"))
        except DelegationFailed as error:
            found.append(error.kind)
            late = asyncio.ensure_future(one(ctx.call(world.save, item="late")))
            found += await beside
            found.append(await late)
        return " ".join(found)

    return stubborn


def curious(world: World) -> Program[Any]:
    """Return a program that may put one question, and puts two."""

    @program(tools=[world.look, world.save], limits=Limits(max_iterations=1))
    async def curious(ctx: ProgramContext, prompt: str) -> str:
        beside = asyncio.ensure_future(ctx.call(world.save, item="a"))
        found = [await ctx.ask_model("first")]
        try:
            await asyncio.gather(ctx.ask_model("second"), ctx.call(world.save, item="late"))
        except (DelegationFailed, CallFailed) as error:
            world.seen.append(type(error).__name__)
        try:
            await beside
        except Interrupted:
            world.seen.append("Interrupted")
        finally:
            world.seen.append("finally")
        return " ".join(found)

    return curious


def quitter(world: World) -> Program[Any]:
    """Return a program that ends itself while calls are open."""

    @program(tools=[world.look, world.save])
    async def quitter(ctx: ProgramContext, prompt: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.call(world.look, item="a"))
            beside = asyncio.ensure_future(ctx.call(world.save, item="a"))
            try:
                await ctx.ask_model("first")
                raise ctx.fail("no source is left", kind="no_report")
            finally:
                world.seen.append("finally" if not beside.done() else "late")

    return quitter


HOSTS: Final[dict[Callable[[World], Program[Any]], tuple[str, str, str, list[str]]]] = {
    stubborn: (
        "budget",
        "yes budget CallFailed Interrupted CallFailed",
        "too small",
        ["CallFailed", "finally", "Interrupted", "finally", "CallFailed", "finally"],
    ),
    curious: ("iteration_cap", "yes", "max_iterations", ["DelegationFailed", "Interrupted", "finally"]),
    quitter: ("no_report", "", "no source is left", ["finally"]),
}
"""Each with its kind, its text, a part of its detail, and what its code sees."""


def events_of(log: MemoryLog, session_id: str = "s") -> list[Event]:
    """Return the events of a session, which must verify and break no rule."""
    recording = Recording.open(MemoryReader(log), session_id)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


async def log_with(events: Sequence[Event]) -> MemoryLog:
    """Return a log as a kill leaves it."""
    log = MemoryLog()
    await log.open()
    epoch = await log.create("s", 0, "go")
    await log.append([Append("s", 0, epoch, events)])
    await log.close()
    return log


async def ran(world: World, host: Agent, log: MemoryLog) -> Outcome[Any]:
    async with world.runtime(log) as runtime:
        session = await runtime.open(host, session_id="s")
        outcome = await session.ask("go", request_id="one")
        await session.close()
    return outcome


def items(events: Sequence[Event]) -> list[bytes]:
    """Return the arguments of the calls of `save`."""
    return [
        bytes(one.body.arguments)
        for one in events
        if isinstance(one.body, CallTool) and one.body.tool == "save"
    ]


def assert_end(
    outcome: Outcome[Any], make: Callable[[World], Program[Any]], *, is_killed: bool = False
) -> None:
    kind, text, detail, _ = HOSTS[make]
    if is_killed:  # the answer may be lost, and what it cost
        text = text.removeprefix("yes ") if outcome.text.startswith("budget") else text
    assert (outcome.kind, outcome.text) == (kind, text)
    assert detail in outcome.detail


@pytest.mark.parametrize("make", HOSTS)
def test_open_calls_are_given_up_the_code_hears_of_it_and_nothing_more_is_asked(
    make: Callable[[World], Program[Any]],
) -> None:
    world, log = World(), MemoryLog()
    outcome, _ = run_virtually(ran(world, make(world), log))
    assert_end(outcome, make)
    assert world.asked == ["stubborn.1", "host.1"][-1:]
    assert world.written == ["a"]
    assert world.seen == HOSTS[make][3]
    assert items(events_of(log)) == [b'{"item":"a"}']


@pytest.mark.parametrize("make", HOSTS)
def test_a_kill_at_any_event_changes_no_end_and_writes_nothing_twice(
    make: Callable[[World], Program[Any]],
) -> None:
    async def live() -> None:
        first = MemoryLog()
        await ran(World(), make(World()), first)
        events = events_of(first)
        for length in range(3, len(events), effort(3, 1)):
            world, log = World(), await log_with(events[:length])
            async with world.runtime(log) as runtime:
                session = await runtime.open(make(world), session_id="s", resume=True)
                outcome = await session.ask("go", request_id="one")
                await session.close()
            assert_end(outcome, make, is_killed=True)
            after = events_of(log)
            started = [one.cause for one in after if isinstance(one.body, ToolStarted)]
            assert len(started) == len(set(started)) <= 1, f"after event {length}"
            assert b"late" not in b"".join(items(after))

    run_virtually(live())


@pytest.mark.parametrize("make", HOSTS)
def test_the_recorded_steps_up_to_the_last_one_are_executed_again_the_same(
    make: Callable[[World], Program[Any]],
) -> None:
    async def live() -> None:
        log = MemoryLog()
        await ran(World(), make(World()), log)
        host = make(World())
        recording = Recording.open(MemoryReader(log), "s")
        for seq in range(5, len(list(recording.events)) + 1):
            programs = programs_of(recording.states(seq), only_running=False)
            assert await check_programs(programs, finder({host.name: host})) == []

    run_virtually(live())


@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("make", HOSTS)
def test_a_fork_at_any_event_ends_alike_and_asks_and_writes_nothing_again(
    make: Callable[[World], Program[Any]], effects: Effects
) -> None:
    async def live() -> None:
        log = MemoryLog()
        await ran(World(), make(World()), log)
        for at in range(2, len(events_of(log)) - 2, effort(7, 1)):
            world = World()
            async with world.runtime(log) as runtime:
                forked = await runtime.fork("s", make(world), at=at, effects=effects, fork_id=f"f{at}")
                assert_end(await forked.outcome, make)
                await forked.close()
            assert (world.asked, world.written) == ([], []), f"from event {at}"
            events_of(log, f"f{at}")

    run_virtually(live())


@pytest.mark.parametrize(
    ("effects", "kind", "written"),
    [("recorded", "needs_effect", []), ("ask", "budget", []), ("live", "budget", ["b"])],
)
def test_a_refusal_in_a_fork_ends_it_with_a_new_write_under_way(
    effects: Effects, kind: str, written: list[str]
) -> None:
    """The fork writes what its origin did not: a person is asked no more, and a missing effect is named."""

    async def live() -> None:
        log = MemoryLog()
        await ran(World(), stubborn(World()), log)
        world = World()
        async with world.runtime(log) as runtime:
            host = stubborn(world, "b")
            forked = await runtime.fork("s", host, at=2, effects=effects, fork_id="f")
            outcome = await forked.outcome
            assert (outcome.kind, world.written, forked.open_approvals) == (kind, written, ())
            assert kind != "needs_effect" or "save" in outcome.detail
            await forked.close()
        events_of(log, "f")

    run_virtually(live())


def test_a_golden_log_of_a_refusal_is_executed_again_the_same() -> None:
    events = golden("refused")
    programs = programs_of(recorded(events).states(events[-1].seq), only_running=False)
    assert [one.address for one in programs] == ["host"]
    assert asyncio.run(check_programs(programs, finder({"refused": refused}))) == []
    other = asyncio.run(check_programs(programs, finder({"refused": stubborn(World())})))
    assert [one.result for one in other] == ["diverged"]


# --- code that makes something else of a refusal ------------------------------------------


async def backs_off(ctx: ProgramContext) -> str:
    for attempt in range(5):
        try:
            return await ctx.ask_model("second")
        except DelegationFailed:
            await ctx.sleep(2**attempt)
    return "after five tries"


async def wraps(ctx: ProgramContext) -> str:
    try:
        return await ctx.ask_model("second")
    except Exception as error:
        raise RuntimeError("the library failed") from error


async def groups(ctx: ProgramContext) -> str:
    asks: list[asyncio.Task[str]] = []
    try:
        async with asyncio.TaskGroup() as group:
            asks = [group.create_task(ctx.ask_model(f"q{at}")) for at in range(8)]
    except* DelegationFailed:
        pass
    return f"{sum(one.done() and not one.exception() for one in asks if not one.cancelled())} answers"


async def returns_at_last(ctx: ProgramContext) -> str:
    try:
        return await ctx.ask_model("second")
    except BaseException:
        raise ValueError("never seen") from None
    finally:
        return "in any case"  # noqa: B012, SIM107  # as code does that wants no error


async def gives_a_default(ctx: ProgramContext) -> str:
    try:
        return await ctx.delegate(defaulting, "second")
    except DelegationFailed as error:
        return f"{error.kind}, {error.text.rpartition(': ')[2]}"


@program(description="Answers in any case.")
async def defaulting(ctx: ProgramContext, prompt: str) -> str:
    try:
        return await ctx.ask_model(prompt)
    except DelegationFailed:
        return "a default"


@table(
    ("goes_on", "text"),
    [
        (backs_off, "yes, after five tries"),
        (wraps, ""),
        (groups, "yes, 0 answers"),
        (returns_at_last, "yes, in any case"),
        (gives_a_default, "yes, budget, a default"),
    ],
)
def test_a_refusal_ends_a_program_whatever_its_code_makes_of_it(
    goes_on: Callable[[ProgramContext], Awaitable[str]], text: str
) -> None:
    @program(agents=[defaulting], limits=POOR)
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return f"{await ctx.ask_model('first')}, {await goes_on(ctx)}"

    world, log = World(), MemoryLog()
    outcome, seconds = run_virtually(ran(world, host, log))
    assert (outcome.kind, outcome.text) == ("budget", text)
    assert "too small" in outcome.detail
    assert seconds == pytest.approx(10), "that of the only question"
    assert world.asked == ["host.1"]
    events_of(log)
