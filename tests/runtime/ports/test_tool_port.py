"""The tools port under a reply with ten thousand calls: few tools at a time, and a loop that stays free."""

import asyncio

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol import prompts
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Reply
from callboard.runtime.sessions.outcome import Outcome
from tests.steps import counting

STEPS_OF_A_CALL = 40
"""Calls of functions that one tool call of a reply may cost while the loop is held."""


class Observer:
    """A task that counts the calls that the loop's thread makes between two of its steps."""

    def __init__(self) -> None:
        self.ticks = 0
        self.longest = 0

    async def watch(self) -> None:
        with counting() as steps:
            last = 0
            while True:
                await asyncio.sleep(0)
                self.longest, last = max(self.longest, steps.made - last), steps.made
                self.ticks += 1


class Looks:
    """A tool that counts how many of its calls run at a time. None returns before `places` of them run."""

    def __init__(self, places: int = 32) -> None:
        self.places = places
        self.running, self.most, self.calls = 0, 0, 0
        self._is_full = asyncio.Event()

    async def look(self, n: int) -> str:
        """Look."""
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == self.places:
            self._is_full.set()
        await self._is_full.wait()
        await asyncio.sleep(0)
        self.running -= 1
        return str(n)


class Asked:
    """A model that makes all calls in its first reply, and keeps what it reads after them."""

    def __init__(self, count: int) -> None:
        self.reply = calls(*[call("look", n=n) for n in range(count)])
        self.read = b""

    def policy(self, request: ModelRequest) -> Reply:
        if request.turn == 1:
            return self.reply
        self.read = bytes(request.messages[-1])
        return say("done")


def run(looks: Looks, asked: Asked, limits: Limits) -> tuple[Outcome, Observer]:
    observer = Observer()

    async def inside() -> Outcome:
        host = Agent("host", tools=[tool(effect="read")(looks.look)])
        async with Runtime(":memory:", model=ScriptedModel(asked.policy), limits=limits) as runtime:
            watching = asyncio.create_task(observer.watch())
            try:
                return await runtime.run(host, "go")
            finally:
                watching.cancel()

    return asyncio.run(asyncio.wait_for(inside(), 60)), observer


@pytest.mark.slow
def test_of_ten_thousand_calls_the_first_run_and_the_others_are_refused_without_holding_the_loop() -> None:
    looks, asked = Looks(), Asked(10_000)
    outcome, observer = run(looks, asked, Limits())
    assert outcome.text == "done"
    assert (looks.calls, looks.most) == (128, 32)
    assert asked.read.count(prompts.too_many_calls(128).encode()) == 10_000 - 128
    assert observer.longest < 10_000 * STEPS_OF_A_CALL


@pytest.mark.slow
def test_thousands_of_calls_that_are_allowed_run_a_few_at_a_time_while_the_loop_goes_on() -> None:
    looks, asked = Looks(), Asked(3_000)
    outcome, observer = run(looks, asked, Limits(max_tool_calls=3_000))
    assert outcome.text == "done"
    assert (looks.calls, looks.most) == (3_000, 32)
    assert asked.read.count(b'"type":"tool_result"') == 3_000
    assert observer.longest < 3_000 * STEPS_OF_A_CALL
    assert observer.ticks > 3_000 // 32
