"""The ends of a session for those who read, wait and hold it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, program, say, tool
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import SessionDetached, SessionEnded, SessionFailed
from callboard.log import MemoryLog
from callboard.runtime.log.protocol import Head
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session
from callboard.runtime.sessions.stream_items import Snapshot, StreamEvent
from tests.runtime.sessions.kit import run
from tests.tables import table
from tests.waiting import until

HOST = Agent("host")
MODEL = ScriptedModel(lambda request: say("hi"))


class Gate:
    """A model that answers once it may."""

    def __init__(self) -> None:
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def __call__(self, request: ModelRequest) -> Step:
        self.asked.set()
        await self.may_answer.wait()
        return say("hi")


async def collected(items: Any) -> list[Any]:
    return [item async for item in items]


async def fails(session: Session) -> None:
    session._board.fail(RuntimeError("the disk is gone"))


@table("is_woken", [False, True])
@table(("end", "error"), [(Session.close, None), (Session.detach, None), (fails, SessionFailed)])
def test_every_reader_comes_to_its_end_with_the_session(
    end: Callable[[Session], Awaitable[object]], error: type[Exception] | None, is_woken: bool
) -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        if is_woken:
            await until(lambda: session.activity == "asleep")
        await session.ask("go")
        readers = [session.stream(), session.events(), session.text(), session.approvals()]
        reading = [asyncio.create_task(collected(one)) for one in readers]
        await asyncio.sleep(0.005)
        await end(session)
        async with asyncio.timeout(10):
            done = await asyncio.gather(*reading, return_exceptions=True)
        stream, events, _, questions = done
        if error is None:
            assert isinstance(stream, list)
            assert isinstance(stream[0], Snapshot)
            assert isinstance(events, list)
            assert [event.seq for event in events] == [*range(1, len(events) + 1)]
            assert len([one for one in stream if isinstance(one, StreamEvent)]) <= len(events)
        else:
            assert isinstance(stream, error)
            assert isinstance(events, error)
        assert questions == []

    run(body, MODEL, idle_s=0.01 if is_woken else None)


def test_a_session_that_slept_several_times_can_be_closed_also_while_it_sleeps() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        for _ in range(2):
            await until(lambda: session.activity == "asleep")
            await session.ask("go")
        await until(lambda: session.activity == "asleep")
        head = await session.close()
        assert await runtime.log.head(session.id) == head
        assert await session.close() == head

    run(body, MODEL, idle_s=0.01)


def test_a_detach_of_a_closed_session_has_its_head_and_a_sleeping_one_leaves_at_once() -> None:
    async def body(runtime: Runtime) -> None:
        closed = await runtime.open(HOST)
        head = await closed.close()
        assert await closed.detach() == head
        asleep = await runtime.open(HOST)
        await until(lambda: asleep.activity == "asleep")
        assert await asleep.detach() == await runtime.log.head(asleep.id)
        with pytest.raises(SessionDetached):
            await asleep.close()

    run(body, MODEL, idle_s=0.01)


def test_the_block_of_a_session_that_failed_or_left_ends_without_another_error() -> None:
    async def main() -> None:
        async with Runtime(":memory:", model=MODEL) as runtime:
            async with runtime.open(HOST, session_id="a") as session:
                await fails(session)
            assert await session.close() == Head(0, b"")
            async with runtime.open(HOST, session_id="b") as session:
                await session.detach()
            async with runtime.open(HOST, session_id="c") as session:
                await session.close()

    asyncio.run(main())


def test_callers_of_an_ask_hear_that_the_process_leaves_and_two_detaches_are_one() -> None:
    async def main() -> None:
        gate = Gate()
        async with Runtime(":memory:", model=ScriptedModel(gate)) as runtime:
            session = await runtime.open(HOST)
            asking = asyncio.create_task(session.ask("go"))
            await gate.asked.wait()
            both = [asyncio.create_task(session.detach(5)) for _ in range(2)]
            await asyncio.sleep(0.005)
            assert not any(one.done() for one in both), "the answer may still come"
            gate.may_answer.set()
            one, other = await asyncio.gather(*both)
            assert one == other == await runtime.log.head(session.id)
            with pytest.raises(SessionDetached):
                await asking
            with pytest.raises(SessionDetached):
                await session.close()

    asyncio.run(main())


def test_a_session_that_an_exception_leaves_is_closed_unless_it_was_closed_or_is_used_again() -> None:
    async def body(runtime: Runtime) -> None:
        for is_used in (False, True):
            with pytest.raises(ValueError, match="mine"):
                async with runtime.open(HOST) as session:
                    raise ValueError("mine")
            if is_used:
                session._stay()
            await asyncio.sleep(0.02)
            (row,) = [one for one in await runtime.log.sessions() if one.session_id == session.id]
            assert (row.head > 1) == (not is_used)
            await session.close()

    run(body, MODEL, cancel_delay_s=0.005)


class Impure:
    """A program that asks for another item in its third execution: the second is the check by a resume."""

    def __init__(self) -> None:
        self.executions = 0
        self.waits, self.go = asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def look(item: str) -> str:
            """Look."""
            if item == "b":
                self.waits.set()
                await self.go.wait()
            return item

        @program(name="host", tools=[look])
        async def host(ctx: ProgramContext, prompt: str) -> str:
            if prompt == "again":
                return "done"
            self.executions += 1
            await ctx.call(look, item="a" if self.executions < 3 else "other")
            return await ctx.call(look, item="b")

        self.host = host


@pytest.mark.parametrize("way", ["cancel", "close", "detach"])
def test_a_session_whose_program_diverges_stands_still_until_somebody_ends_it(way: str) -> None:
    async def main() -> None:
        impure, log = Impure(), MemoryLog()
        async with Runtime(log) as runtime:
            session = await runtime.open(impure.host, session_id="s")
            await session.submit("go", request_id="r")
            await impure.waits.wait()
            await session.detach(0)
        async with Runtime(log) as runtime, asyncio.timeout(20):
            session = await runtime.resume("s", impure.host)
            stood: list[bool] = []
            tell = session._on_waits

            async def on_waits(error: Diverged) -> None:
                stood.append(session._board.is_still)
                await tell(error)

            session._on_waits = on_waits
            impure.go.set()
            with pytest.raises(Diverged):
                await session.outcome
            assert stood == [True]
            with pytest.raises(Diverged):
                await session.ask("other")
            assert "s" in runtime._started().live.waiting
            if way == "detach":
                with pytest.raises(Diverged):
                    await session.ask("other")
                await session.detach()
                return
            if way == "cancel":
                outcome = await session.cancel("enough")
                assert outcome is not None
                assert (outcome.kind, outcome.request_id) == ("cancelled", "r")
                assert "s" not in runtime._started().live.waiting
                assert (await session.ask("again")).text == "done"
            head = await session.close()
            assert await runtime.log.head("s") == head
            with pytest.raises(SessionEnded):
                await session.ask("other")

    asyncio.run(main())
