"""Programs beside everything else of a runtime: a robbed owner, changed agents, capacity, streams, people."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callboard import (
    Agent,
    Approval,
    Capacity,
    ModelRequest,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    program,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import Tell, TellEnded
from callboard.actors.protocol.errors import SessionNotFound, StoreError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, RequestCapacity
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from callboard.errors import AgentsChanged, Diverged, InvalidPrompt, NotApproved, TellRefused
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.programs.program import Program
from callboard.streaming import TextDelta
from tests.processes import running
from tests.runtime.programs.test_program import live
from tests.waiting import until


class Shop:
    """A program that pays, waits for a gate and pays again."""

    def __init__(self, last: int = 2) -> None:
        self.paid: list[int] = []
        self.gate = asyncio.Event()

        @tool
        async def pay(euros: int) -> int:
            """Pay."""
            self.paid.append(euros)
            return euros

        @tool(effect="read")
        async def wait() -> str:
            """Wait for the gate."""
            await self.gate.wait()
            return "open"

        @program(tools=[pay, wait])
        async def host(ctx: ProgramContext, prompt: str) -> list[int]:
            first = await ctx.call(pay, euros=1)
            await ctx.call(wait)
            return [first, await ctx.call(pay, euros=last)]

        self.host: Program[list[int]] = host

    def waits(self) -> bool:
        return self.paid == [1] and self.host.model.parked == 1


def kinds(log: MemoryLog, name: str, kind: type) -> list[Any]:
    return [e.body for e in Recording.open(MemoryReader(log), name).events if isinstance(e.body, kind)]


@live
async def test_a_robbed_owner_drops_its_parked_program_and_the_thief_goes_on() -> None:
    log, shop = MemoryLog(), Shop()
    async with Runtime(log) as one, Runtime(log) as other:
        session = await one.open(shop.host, session_id="s")
        await session.submit("go")
        await until(shop.waits)
        again = Shop()
        again.gate.set()
        stolen = await other.resume("s", again.host, steal=True)
        outcome = await stolen.outcome
        assert (outcome.text, shop.paid, again.paid) == ("[1,2]", [1], [2])
        await stolen.close()
        shop.gate.set()
    assert (shop.paid, shop.host.model.parked, again.host.model.parked) == ([1], 0, 0)
    assert Recording.open(MemoryReader(log), "s").verify().is_ok


VICTIM = """
import asyncio, os, sys
from callboard import ProgramContext, Runtime, program, tool

@tool
async def pay(euros: int) -> int:
    '''Pay.'''
    with open("paid.txt", "a") as file:
        file.write(f"{euros}\\n")
    return euros

@tool(effect="read")
async def wait() -> str:
    '''Wait to be killed.'''
    if "KILL" in os.environ:
        await asyncio.sleep(60)
    return "open"

@program(tools=[pay, wait], description="Shops.")
async def shop(ctx: ProgramContext, prompt: str) -> int:
    return await ctx.call(pay, euros=1) + (await ctx.call(wait) == "open") + await ctx.call(pay, euros=2)

@program(agents=[shop])
async def host(ctx: ProgramContext, prompt: str) -> list[str]:
    return await asyncio.gather(*(ctx.delegate(shop, str(n)) for n in range(3)))

async def main() -> None:
    async with Runtime("log.db") as runtime:
        if "KILL" in os.environ:
            await runtime.run(host, "go", session_id="s")
        else:
            session = await runtime.resume("s", host, steal=True)
            print((await session.outcome).text)

asyncio.run(main())
"""


def waits_in(log: Path) -> int:
    """Return the number of calls of the tool `wait` in the log of a process that runs."""
    try:
        with Recording.open(log, "s") as recording:
            calls = [event.body for event in recording.events if isinstance(event.body, CallTool)]
    except (StoreError, SessionNotFound):  # it is not there yet
        return 0
    return sum(call.tool == "wait" for call in calls)


@pytest.mark.slow
def test_parked_programs_of_a_killed_process_are_stolen_and_pay_once(tmp_path: Path) -> None:
    (tmp_path / "victim.py").write_text(VICTIM)
    command = [sys.executable, "victim.py"]
    with running(command, cwd=tmp_path, env={**os.environ, "KILL": "1"}) as killed:
        while waits_in(tmp_path / "log.db") < 3:  # the payments before are durable, too
            assert killed.poll() is None
            time.sleep(0.05)  # it needs the processor itself
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True, env=dict(os.environ)
    )
    assert done.stdout == '["4","4","4"]\n'
    assert sorted((tmp_path / "paid.txt").read_text().split()) == ["1"] * 3 + ["2"] * 3
    recording = Recording.open(tmp_path / "log.db", "s")
    assert recording.verify().is_ok


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [("refuse", "AgentsChanged"), ("next_ask", "Diverged"), ("accept", "Diverged")],
)
def test_a_changed_program_under_each_policy(policy: Any, expected: str) -> None:
    """A program is its agent's model, so that its own code is not part of the profile that is compared."""
    log, shop = MemoryLog(), Shop()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    async def changed(ctx: ProgramContext, prompt: str) -> object:
        return await ctx.call(look)

    @live
    async def scene() -> None:
        async with Runtime(log) as runtime:
            session = await runtime.open(shop.host, session_id="s")
            await session.submit("go")
            await until(shop.waits)
        other = Program(changed, "host", tools=[look])
        async with Runtime(log, on_agents_changed=policy) as runtime:
            if expected == "AgentsChanged":
                with pytest.raises(AgentsChanged, match="tool"):
                    await runtime.resume("s", other)
                return
            with pytest.raises(Diverged, match=r"step 1 is not as recorded\. Recorded: asked pay"):
                await runtime.resume("s", other)
            session = await runtime.resume("s", other, on_diverged="crash")
            outcome = await session.outcome
            assert outcome.kind == "crashed"
            assert "step 1 is not as recorded. Recorded: asked pay" in outcome.detail
            assert (await session.ask("again")).text == "seen"

    scene()


@live
async def test_capacity_holds_for_the_models_below_programs_and_not_for_steps() -> None:
    in_flight = [0, 0]

    async def policy(request: ModelRequest) -> Reply:
        in_flight[0] += 1
        in_flight[1] = max(in_flight)
        await asyncio.sleep(0.001)
        in_flight[0] -= 1
        return say("done")

    worker = Agent("worker", description="Works.", model=ScriptedModel(policy, name="claude"))

    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> int:
        return len(await asyncio.gather(*(ctx.delegate(worker, str(n)) for n in range(6))))

    log = MemoryLog()
    capacity = {"claude": Capacity(calls=2), host.model.spec.name: Capacity(calls=1)}
    async with Runtime(log, capacity=capacity) as runtime:
        outcomes = await asyncio.gather(*(runtime.run(host, "go") for _ in range(4)))
    assert [outcome.text for outcome in outcomes] == ["6"] * 4
    assert in_flight == [0, 2]
    asked = kinds(log, outcomes[0].session_id, RequestCapacity)
    assert len(asked) == 6
    assert {one.model for one in asked} == {"claude"}


class Speaking:
    """A model that streams its answer in two pieces."""

    spec = ModelSpec("speaking")

    async def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer:
        for piece in (request.profile, " says hello"):
            on_text(piece)
            await asyncio.sleep(0.02)
        block = {"type": "text", "text": f"{request.profile} says hello"}
        return ModelAnswer(Json(json.dumps([block]).encode()), "end_turn", Usage(1, 1))

    async def aclose(self) -> None:
        """Hold nothing."""


@live
async def test_the_text_of_a_programs_sub_agents_is_streamed() -> None:
    worker = Agent("worker", description="Works.")

    @program(agents=[worker])
    async def host(ctx: ProgramContext, prompt: str) -> list[str]:
        return [await ctx.delegate(worker, "work"), await ctx.ask_model("what?")]

    texts: dict[str, str] = {}
    model = Speaking()
    async with Runtime(MemoryLog(), model=model) as runtime, runtime.open(host) as session:

        async def read() -> None:
            async for item in session.stream(of="*"):
                if isinstance(item, TextDelta):
                    texts[item.address] = texts.get(item.address, "") + item.text

        reading = asyncio.create_task(read())
        outcome = await session.ask("go")
        await asyncio.sleep(0.05)
        reading.cancel()
    assert outcome.is_ok
    assert texts == {"host.1": "worker says hello", "host.2": "ask_model says hello"}


@live
async def test_changed_arguments_that_do_not_fit_are_refused_and_the_program_waits_on() -> None:
    @tool(approval="before")
    async def pay(euros: int) -> int:
        """Pay."""
        return euros

    @program(tools=[pay])
    async def host(ctx: ProgramContext, prompt: str) -> object:
        try:
            return [await ctx.call(pay, euros=5), await ctx.call(pay, euros=6)]
        except NotApproved as error:
            return str(error)

    async def approved(session: Any, answer: Callable[[Approval], object]) -> None:
        await until(lambda: session.open_approvals)
        answer(session.open_approvals[0])

    def wrongly(question: Approval) -> None:
        for wrong in ({"euros": "many"}, {"dollars": 5}, {"euros": 5, "extra": 1}):
            with pytest.raises(InvalidPrompt):
                question.approve(arguments=wrong)
        assert question.is_open
        assert question.approve(arguments={"euros": 7})

    async with Runtime(MemoryLog()) as runtime, runtime.open(host) as session:
        await session.submit("go")
        await approved(session, wrongly)
        await approved(session, lambda question: question.deny("Not again."))
        text = (await session.outcome).text
        assert text == "tool 'pay' was not approved: It was not allowed to run: Not again."


@live
async def test_words_that_are_repeated_with_one_name_are_said_once() -> None:
    asked, may_go = asyncio.Event(), asyncio.Event()

    async def policy(request: ModelRequest) -> Reply:
        asked.set()
        await may_go.wait()
        return say(str(bytes(b"".join(map(bytes, request.messages))).count(b"hurry")))

    log = MemoryLog()
    async with Runtime(log, model=ScriptedModel(policy)) as runtime:
        session = await runtime.open(Agent("host"), session_id="s")
        await session.submit("go")
        await asked.wait()
        telling = [asyncio.create_task(session.tell("host", "hurry", request_id="one")) for _ in range(3)]
        await asyncio.sleep(0)
        may_go.set()
        assert set(await asyncio.gather(*telling)) == {2}
        assert (await session.outcome).text == "1"
        assert await session.tell("host", "hurry", request_id="one") == 2
        with pytest.raises(TellRefused):
            await session.tell("host", "hurry", request_id="two")
        await session.close()
    assert len(kinds(log, "s", Tell)) == len(kinds(log, "s", TellEnded)) == 2


@live
async def test_an_agent_that_has_ended_hears_no_words_while_its_host_runs_on() -> None:
    worker, shop = Agent("worker", description="Works."), Shop()

    @program(agents=[worker, shop.host])
    async def leader(ctx: ProgramContext, prompt: str) -> list[str]:
        return [await ctx.delegate(worker, "work"), await ctx.delegate(shop.host, "shop")]

    async with Runtime(MemoryLog(), model=ScriptedModel(lambda request: "done")) as runtime:
        session = await runtime.open(leader)
        await session.submit("go")
        await until(shop.waits)
        with pytest.raises(TellRefused, match=r"host\.1"):
            await session.tell("host.1", "hurry")
        shop.gate.set()
        assert (await session.outcome).structured_output == ["done", "[1,2]"]


@live
async def test_a_program_hears_no_words_and_says_so() -> None:
    log, shop = MemoryLog(), Shop()
    async with Runtime(log) as runtime:
        session = await runtime.open(shop.host, session_id="s")
        await session.submit("go")
        await until(shop.waits)
        with pytest.raises(TellRefused, match="program"):
            await session.tell("host", "hurry")
        shop.gate.set()
        assert (await session.outcome).text == "[1,2]"
