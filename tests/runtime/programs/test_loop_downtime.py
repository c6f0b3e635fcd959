"""Programs over the time without a process: timeouts and sleeps leave it out, times of day do not."""

import asyncio
import datetime
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import (
    Agent,
    Limits,
    ModelRequest,
    Outcome,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    program,
    say,
)
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Wake
from callboard.errors import DelegationFailed
from callboard.log import MemoryLog
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.ports.paced_models import earliest_s
from callboard.runtime.programs.history import RecordedRun, RecordedStep
from callboard.runtime.programs.replaying import executed_again
from tests.runtime.programs.kit import T0, Function, answer, main_of, started
from tests.virtual_clock import run_virtually

NAME: Final = "s"
HOUR: Final = 3_600.0
READERS: Final = 45
WIDE: Final = Limits(max_parallel_calls=2 * READERS, max_children=READERS)

worker = Agent("worker", description="Works.")


class Service:
    """A model that answers after the seconds that the prompt names. began: the time of each call."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.model = ScriptedModel(self._answer)

    async def _answer(self, request: ModelRequest) -> Reply:
        self.began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(float(str(request.conversation[0]["content"])))
        return say("read")


class Lives(NamedTuple):
    """The outcome of a session, its events, and the calls of its last process, by their times."""

    outcome: Outcome
    events: list[Event]
    began: list[float]
    resumed_at: float


def events_of(log: MemoryLog) -> list[Event]:
    """Return the events of the session, which must verify and break no rule."""
    recording = Recording.open(MemoryReader(log), NAME)
    recording.verify().check()
    events = list(recording.events)
    assert check_log(events) == []
    return events


async def log_with(events: list[Event]) -> MemoryLog:
    """Return a log as a kill leaves it."""
    log = MemoryLog()
    await log.open()
    epoch = await log.create(NAME, 0, "go")
    await log.append([Append(NAME, 0, epoch, events)])
    await log.close()
    return log


def process(log: MemoryLog, service: Service, *, counts: bool = False) -> Runtime:
    return Runtime(log, model=service.model, limits=WIDE, deadline_counts_downtime=counts)


def lived(host: Agent, times: list[tuple[float, float]], *, counts: bool = False) -> Lives:
    """Run a host. times: the seconds of each process until it is killed, and those until the next one."""

    async def live() -> Lives:
        log, clock = MemoryLog(), asyncio.get_running_loop()
        for place, (alive, down) in enumerate(times):
            async with process(log, Service(), counts=counts) as runtime:
                session = await runtime.open(host, session_id=NAME, resume=place > 0)
                if not place:
                    await session.submit("go")
                await asyncio.sleep(alive)
                left = events_of(log)
            log = await log_with(left)
            await asyncio.sleep(down)
        service, resumed_at = Service(), clock.time()
        async with process(log, service, counts=counts) as runtime:
            session = await runtime.resume(NAME, host)
            outcome = await session.outcome
            await session.close()
        return Lives(outcome, events_of(log), service.began, resumed_at)

    return run_virtually(live())[0]


@program(agents=[worker])
async def readers(ctx: ProgramContext, prompt: str) -> list[str]:
    async def read() -> str:
        try:
            async with asyncio.timeout(60):
                return await ctx.delegate(worker, "20")
        except TimeoutError:
            return "timeout"

    return [*await asyncio.gather(*(read() for _ in range(READERS)))]


@program(description="Reads.")
async def reader(ctx: ProgramContext, prompt: str) -> str:
    async with asyncio.timeout(60):
        return await ctx.ask_model(prompt)


@program(agents=[reader])
async def orchestrator(ctx: ProgramContext, prompt: str) -> list[str]:
    async def read() -> str:
        try:
            return await ctx.delegate(reader, "20")
        except DelegationFailed as error:
            return "timeout" if "TimeoutError" in str(error) else str(error)

    return [*await asyncio.gather(*(read() for _ in range(READERS)))]


@pytest.mark.parametrize("host", [readers, orchestrator])
@pytest.mark.parametrize(("counts", "text"), [(False, "read"), (True, "timeout")])
def test_45_readers_with_timeouts_lose_nothing_to_an_hour_without_a_process(
    host: Agent, counts: bool, text: str
) -> None:
    found = lived(host, [(10, HOUR)], counts=counts)
    assert found.outcome.structured_output == [text] * READERS
    if not counts:
        assert len(found.began) == READERS, "each is asked once more"


def test_the_calls_that_a_resume_makes_again_do_not_begin_at_once() -> None:
    found = lived(readers, [(10, HOUR)])
    began = sorted(round((at - found.resumed_at) * 1_000) for at in found.began)
    assert began == [round(1_000 * earliest_s(place + 1)) for place in range(READERS)]
    assert began[:9] == [0] * 8 + [170]


@program
async def sleepers(ctx: ProgramContext, prompt: str) -> list[float]:
    began = ctx.now()

    async def after(wait: Callable[[], object]) -> float:
        await wait()  # type: ignore[misc]  # a coroutine
        return (ctx.now() - began).total_seconds()

    fixed = began + datetime.timedelta(seconds=100)
    return [*await asyncio.gather(after(lambda: ctx.sleep(100)), after(lambda: ctx.sleep_until(fixed)))]


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([(10.0, 30.0)], [100 + 40, 100]),
        ([(10.0, 30.0), (20.0, 5.0)], [100 + 40 + 25, 100]),
        ([(10.0, HOUR)], [100 + 10 + 3_600, 3_610]),
        ([(10.0, 30.0), (95.0, HOUR)], [100 + 40 + 35 + 3_600, 100]),
    ],
)
def test_a_sleep_leaves_out_the_time_since_the_last_event_and_a_time_of_day_does_not(
    times: list[tuple[float, float]], seconds: list[float]
) -> None:
    found = lived(sleepers, times)
    assert found.outcome.structured_output == pytest.approx(seconds, abs=0.01)
    resumed = [event.body for event in found.events if isinstance(event.body, Resumed)]
    assert sum(one.left_out_ms for one in resumed) == pytest.approx((seconds[0] - 100) * 1_000, abs=10)
    assert all(one.extend_ms == one.left_out_ms for one in resumed)


def test_a_wake_is_the_earlier_of_both_by_the_clock() -> None:
    found = lived(sleepers, [(10, 30)])
    opened = found.events[0].at
    wakes = [event.body.until for event in found.events if isinstance(event.body, Wake)]
    waits = [round((until - opened) / 1_000) for until in wakes if until is not None]
    assert waits == [100, 140]


def test_a_fork_of_a_session_repeats_its_downtime() -> None:
    found = lived(readers, [(10, HOUR)])
    at = next(event.seq for event in found.events if isinstance(event.body, Resumed)) + 100

    async def fork() -> tuple[Outcome, int]:
        service = Service()
        async with Runtime(await log_with(found.events), model=service.model) as runtime:
            forked = await runtime.fork(NAME, readers, at=at)
            return await forked.outcome, len(service.began)

    outcome, calls = run_virtually(fork())[0]
    assert outcome.structured_output == ["read"] * READERS
    assert calls == 0, "every answer is recorded"


def test_calls_that_wait_for_their_moment_are_cancelled_and_never_begin() -> None:
    async def live() -> tuple[str, int, list[Event]]:
        log, service = MemoryLog(), Service()
        async with Runtime(log, model=service.model, limits=WIDE) as runtime:
            session = await runtime.open(readers, session_id=NAME)
            await session.submit("go")
            await asyncio.sleep(10)
            left = events_of(log)
        log, service = await log_with(left), Service()
        async with Runtime(log, model=service.model) as runtime:
            session = await runtime.resume(NAME, readers)
            await asyncio.sleep(0.5)
            outcome = await session.cancel()
            await asyncio.sleep(HOUR)
            await session.close()
        assert outcome is not None
        return outcome.kind, len(service.began), events_of(log)

    kind, calls, _ = run_virtually(live())[0]
    assert (kind, calls) == ("cancelled", 8 + 3)


def test_calls_that_wait_for_their_moment_do_not_begin_in_a_process_that_detaches() -> None:
    async def live() -> tuple[Outcome, int, int]:
        log, second, third = MemoryLog(), Service(), Service()
        for service, alive in ((Service(), 10.0), (second, 0.5)):
            async with process(log, service) as runtime:
                session = await runtime.open(readers, session_id=NAME, resume=service is second)
                if service is not second:
                    await session.submit("go")
                await asyncio.sleep(alive)
                await session.detach(grace_s=0)
            await asyncio.sleep(HOUR)
        async with process(log, third) as runtime:
            session = await runtime.resume(NAME, readers)
            outcome = await session.outcome
            await session.close()
        events_of(log)
        return outcome, len(second.began), len(third.began)

    outcome, second, third = run_virtually(live())[0]
    assert outcome.structured_output == ["read"] * READERS
    assert second == 8 + 3
    assert third == READERS


# --- a run alone ------------------------------------------------------------------------------------


class Period(NamedTuple):
    """A time that passes before the next step, with or without a process."""

    ms: int
    is_down: bool


PERIODS = st.lists(st.builds(Period, st.integers(0, 5_000), st.booleans()), max_size=30)


def stepped(function: Function, periods: list[Period]) -> list[RecordedStep]:
    """Run a program whose one open ask is never answered, with steps at these times and when due."""
    run = started(function)
    at, left_out = T0, 0
    steps = [RecordedStep((), run.step((), at))]
    for period in [*periods, Period(10**7, is_down=False)]:
        end = at + period.ms
        if period.is_down:
            left_out += period.ms
        while not period.is_down and (wake := steps[-1].step.head.wake) is not None and wake <= end:
            at = max(at, wake)
            steps.append(RecordedStep((), run.step((), at, left_out_ms=left_out)))
        if steps[-1].step.ending is not None:
            break
        at = end
        if not period.is_down:
            steps.append(RecordedStep((), run.step((), at, left_out_ms=left_out)))
    return steps


@given(PERIODS, st.lists(st.integers(1, 20_000), min_size=1, max_size=4))
def test_any_schedule_of_downtimes_leaves_each_timeout_its_time(
    periods: list[Period], waits: list[int]
) -> None:
    at_end: dict[int, int] = {}

    async def host(ctx: ProgramContext, prompt: str) -> str:
        async def one(place: int, ms: int) -> None:
            try:
                async with asyncio.timeout(ms / 1_000):
                    await ctx.delegate(ctx._agent.agents[0], "never answered")
            except TimeoutError:
                at_end[place] = ctx._run.at - ctx._run.left_out_ms - T0

        await asyncio.gather(*(one(place, ms) for place, ms in enumerate(waits)))
        return "over"

    steps = stepped(host, periods)
    assert steps[-1].step.ending is not None
    assert at_end == dict(enumerate(waits))
    firsts = dict(at_end)
    at_end.clear()
    run = executed_again(main_of(host), "", RecordedRun(1, answer("x").content, tuple(steps)))
    assert run.is_over
    assert at_end == firsts


@given(PERIODS, st.integers(-100, 40_000))
def test_no_schedule_of_downtimes_puts_a_time_of_day_off(periods: list[Period], ms: int) -> None:
    ends: list[int] = []

    async def host(ctx: ProgramContext, prompt: str) -> str:
        await ctx.sleep_until(ctx.now() + datetime.timedelta(milliseconds=ms))
        ends.append(ctx._run.at - T0)
        return "over"

    stepped(host, periods)
    at = 0
    for period in periods:
        if ms <= at + period.ms and not period.is_down:
            break
        at += period.ms
    assert ends == [max(at, ms) if ms > 0 else 0], "the first moment with a process from then on"


def test_steps_of_a_clock_that_was_set_back_go_on_without_going_back() -> None:
    times: list[float] = []

    async def host(ctx: ProgramContext, prompt: str) -> str:
        for _ in range(4):
            times.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)
        return "over"

    run = started(host)
    run.step((), T0)
    run.step((), T0 + 1_000)
    run.step((), T0 + 1_500, left_out_ms=5_000)  # more than has passed: it is left out as time passes
    assert times == [0, 1]
    assert run.step((), T0 + 5_500, left_out_ms=5_000).head.wake == T0 + 6_500
    assert run.step((), T0 + 6_500, left_out_ms=5_000).head.wake == T0 + 7_000
    assert times == [0, 1]
    run.step((), T0 + 7_000, left_out_ms=5_000)
    assert times == [0, 1, 2]


def test_a_step_without_downtime_is_written_as_before() -> None:
    async def host(ctx: ProgramContext, prompt: str) -> str:
        await ctx.sleep(1)
        return "over"

    run = started(host)
    first, second = run.step((), T0), run.step((), T0 + 2_500, left_out_ms=2_000)
    assert b"left_out_ms" not in bytes(first.content())
    assert b'"left_out_ms":2000' in bytes(second.content())
    assert second.head.wake == T0 + 3_000


def test_a_run_that_begins_after_a_downtime_counts_from_its_own_start() -> None:
    async def host(ctx: ProgramContext, prompt: str) -> str:
        await ctx.sleep(1)
        return "over"

    run = started(host)
    assert run.step((), T0, left_out_ms=5_000).head.wake == T0 + 1_000
    assert run.step((), T0 + 500, left_out_ms=6_000).head.wake == T0 + 1_500
    assert run.step((), T0 + 1_500, left_out_ms=6_000).head.wake == T0 + 2_000
    assert run.step((), T0 + 2_000, left_out_ms=6_000).ending is not None
