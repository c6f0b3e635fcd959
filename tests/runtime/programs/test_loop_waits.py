"""Waits of programs on the virtual clock: a timeout, a race and an error end when they say, and not later."""

import asyncio
import gc
import math
import statistics
from dataclasses import dataclass
from random import Random
from typing import Final

import pytest

from callboard import (
    Agent,
    Call,
    Limits,
    ModelRequest,
    Outcome,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    program,
    say,
    tool,
)
from callboard.log import MemoryLog
from callboard.runtime.programs.run import CANCELS
from tests.virtual_clock import run_virtually

CRITICAL_PATH_MAX: Final = 1.1
SEEDS: Final = 8


@dataclass
class Finding:
    """A typed result."""

    text: str


@tool(effect="read")
async def wait(seconds: float) -> float:
    """Wait."""
    await asyncio.sleep(seconds)
    return seconds


@tool(effect="read")
async def fail() -> str:
    """Fail soon."""
    await asyncio.sleep(0.05)
    raise ValueError("no")


async def think(request: ModelRequest) -> Call | Reply:
    """Answer after the seconds that the prompt names, by a report if one is owed."""
    await asyncio.sleep(float(str(request.conversation[0]["content"])))
    if any(b'"report_back"' in bytes(one) for one in request.tools):
        return call("report_back", text="known")
    return say("known")


worker = Agent("worker", description="Works.")


def took(host: Agent) -> tuple[Outcome, float]:
    """Run a host, and return its outcome and the virtual seconds until then."""

    async def live() -> tuple[Outcome, float]:
        async with Runtime(MemoryLog(), model=ScriptedModel(think)) as runtime:
            clock = asyncio.get_running_loop()
            began = clock.time()
            outcome = await runtime.run(host, "go")
            return outcome, clock.time() - began

    return run_virtually(live())[0]


def test_a_timeout_ends_a_tool_of_3_seconds_after_0_3() -> None:
    @program(tools=[wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            await asyncio.wait_for(ctx.call(wait, seconds=3), 0.3)
        except TimeoutError:
            return "gave up"
        return "waited"

    outcome, seconds = took(host)
    assert outcome.text == "gave up"
    assert seconds == pytest.approx(0.30, abs=0.002)


def test_the_first_of_two_delegations_is_known_when_it_ends() -> None:
    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        both = [asyncio.ensure_future(ctx.delegate(worker, seconds)) for seconds in ("2", "0.1")]
        done, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in left:
            one.cancel()
        return f"{len(done)} known, {both.index(done.pop())}"

    outcome, seconds = took(host)
    assert outcome.text == "1 known, 1"
    assert seconds == pytest.approx(0.1, abs=0.01)


def test_an_error_beside_a_delegation_of_5_seconds_is_known_at_once() -> None:
    @program(tools=[fail], agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(ctx.delegate(worker, "5"))
                group.create_task(ctx.call(fail))
        except ExceptionGroup as error:
            return str(error.exceptions[0])
        return "no error"

    outcome, seconds = took(host)
    assert "ValueError: no" in outcome.text
    assert outcome.delegations[0].kind == "cancelled"
    assert seconds == pytest.approx(0.05, abs=0.01)


def test_a_timer_of_60_seconds_holds_up_no_typed_orchestrator() -> None:
    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        async def ask(seconds: str) -> str:
            async with asyncio.timeout(60):
                return (await ctx.delegate(worker, seconds, schema=Finding)).text

        return [*await asyncio.gather(ask("0.01"), ask("0.02"))]

    outcome, seconds = took(host)
    assert outcome.structured_output == ["known", "known"]
    assert seconds == pytest.approx(0.02, abs=0.002)


def test_a_program_that_sleeps_in_a_loop_ends_at_its_cap_of_steps() -> None:
    @program(limits=Limits(max_steps=50))
    async def host(ctx: ProgramContext, prompt: str) -> str:
        while True:
            await ctx.sleep(3_600)

    outcome, seconds = took(host)
    assert (outcome.kind, outcome.detail) == ("iteration_cap", "max_steps")
    assert seconds == pytest.approx(49 * 3_600, abs=1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it ignores GeneratorExit
def test_a_program_that_swallows_everything_in_a_loop_is_stopped() -> None:
    begun: list[int] = []

    @program(tools=[wait])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        while True:
            try:
                begun.append(1)
                await ctx.call(wait, seconds=100)
            except BaseException:
                continue

    async def live() -> Outcome:
        async with Runtime(MemoryLog()) as runtime, runtime.open(host) as session:
            await session.submit("go")
            await asyncio.sleep(250)
            outcome = await session.cancel()
            assert outcome is not None
            return outcome

    outcome, seconds = run_virtually(live())
    assert outcome.kind == "cancelled"
    assert seconds == pytest.approx(250, abs=1)
    closes = 2  # one by the run, one by its finalizer, which Python calls in any case
    assert len(begun) == 3 + CANCELS + closes, "each cancellation and each close asks once more, in vain"
    assert host.model.parked == 0
    gc.collect()
    assert len(begun) == 3 + CANCELS + closes, "no code of it runs when garbage is collected"


def to_critical_path(seed: int) -> float:
    """Return the duration of 8 branches of 10 steps, as a multiple of the longest branch."""
    chance = Random(seed)
    branches = [[math.exp(chance.gauss(0, 1)) for _ in range(10)] for _ in range(8)]

    @program(tools=[wait], agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        async def branch(steps: list[float]) -> None:
            for number, seconds in enumerate(steps):
                await (ctx.delegate(worker, str(seconds)) if number % 2 else ctx.call(wait, seconds=seconds))

        await asyncio.gather(*map(branch, branches))
        return "done"

    outcome, seconds = took(host)
    assert outcome.text == "done"
    return seconds / max(map(sum, branches))


@pytest.mark.slow
def test_8_branches_of_10_steps_take_as_long_as_the_longest() -> None:
    ratios = [to_critical_path(seed) for seed in range(SEEDS)]
    assert min(ratios) >= 0.999
    assert statistics.mean(ratios) <= CRITICAL_PATH_MAX
