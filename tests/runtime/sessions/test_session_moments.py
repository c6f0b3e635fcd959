"""Moments of a session that a test has to make itself: errors between two calls, ends, and events twice."""

import asyncio
import gc
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from callboard import Agent, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.errors import Diverged, MissingType, SessionEnded
from callboard.actors.protocol.events import Event
from callboard.runtime.sessions.session import Session
from tests.runtime.sessions.kit import run

HOST = Agent("host")
MODEL = ScriptedModel(lambda request: say("hi"))


def test_a_session_that_waits_for_its_code_is_not_open() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        session._diverged = Diverged("s: its code is another")
        with pytest.raises(Diverged, match="its code is another"):
            session._check_open()
        session._diverged = None
        session._check_open()

    run(body, MODEL)


def test_a_session_that_is_over_is_not_open() -> None:
    async def body(runtime: Runtime) -> None:
        for name in ("_is_over", "_is_closing"):
            session = await runtime.open(HOST)
            setattr(session, name, True)
            with pytest.raises(SessionEnded, match=f"session {session.id} is closed"):
                session._check_open()
            setattr(session, name, False)
            session._check_open()

    run(body, MODEL)


def test_the_outcome_of_a_fork_is_that_of_the_ask_which_is_posted_next() -> None:
    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST) as session:
            first = await session.ask("go")
            left = [0]
            session._expect(lambda: left[0])
            assert await session.outcome is first
            assert not session._has_asks
            left[0] = 1
            assert session._has_asks
            waiting = asyncio.ensure_future(session.outcome)
            await asyncio.sleep(0)
            assert not waiting.done()
            last = session._last
            _ = session.outcome
            assert session._last is last, "it is made once"
            second = await session.ask("go")
            assert second is not first
            assert not waiting.done() or await waiting is second
            waiting.cancel()

    run(body, MODEL)


def test_the_outcome_of_a_running_ask_is_its_own_although_more_asks_are_left() -> None:
    async def body(runtime: Runtime) -> None:
        async with runtime.open(HOST) as session:
            session._expect(lambda: 1)
            asking = asyncio.create_task(session.ask("go"))
            await asyncio.sleep(0)
            last = session._last
            last.get_loop()
            assert session._running
            _ = session.outcome
            assert session._last is last
            await asking

    run(body, MODEL)


def test_a_cancel_takes_up_a_session_that_waits_for_its_code() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        taken: list[str] = []

        async def take_up() -> None:
            taken.append("taken up")

        session._take_up_to_end = take_up  # type: ignore[method-assign]  # replaced on purpose
        assert await session.cancel() is None
        assert taken == ["taken up"]

    run(body, MODEL)


def test_the_end_of_an_ask_lets_a_held_session_start_and_counts_idle_time_from_then_on() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        done: list[str] = []
        rounds: Any = SimpleNamespace(
            add=lambda look: done.append("idle"), remove=lambda look: done.append("busy")
        )
        session._rest = session._rest._replace(rounds=rounds)
        asking = asyncio.create_task(session.ask("go"))
        await asyncio.sleep(0)
        session._when_diverged = "hold"
        await asking
        assert (session._when_diverged, session._board.is_held, done) == ("wait", False, ["idle"])

    run(body, MODEL)


def test_an_outcome_is_given_once_and_one_that_cannot_be_made_is_silent() -> None:
    said: list[str] = []

    async def body(runtime: Runtime) -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda loop, context: said.append(context["message"])
        )
        session = await runtime.open(HOST)
        outcome = await session.ask("go", request_id="r")
        session._settle("r")
        assert session._last.result() is outcome

        def fails(request_id: str) -> Any:
            raise MissingType(f"{request_id}: its type is not here", ("Report",))

        session._outcomes = SimpleNamespace(of=fails)  # type: ignore[assignment]  # a stand-in
        session._last = asyncio.get_running_loop().create_future()
        session._settle("r")
        assert isinstance(session._last.exception(), MissingType)
        session._last = asyncio.get_running_loop().create_future()
        session._settle("r")
        session._last = asyncio.get_running_loop().create_future()
        gc.collect(1)

    run(body, MODEL)
    assert said == []


def test_readers_that_end_leave_nothing_behind_and_answered_questions_go_with_the_sleep() -> None:
    @tool(approval="always")
    async def pay() -> str:
        """Pay."""
        return "paid"

    async def body(runtime: Runtime) -> None:
        session = await runtime.open(Agent("host", tools=[pay]))
        before = list(session._ends)
        asking = asyncio.create_task(session.ask("go"))
        questions = session.approvals()
        (await anext(questions)).approve()
        await asking
        await questions.aclose()  # type: ignore[attr-defined]  # a generator
        events = session.events()
        await anext(events)
        assert len(session._ends) > len(before)
        await events.aclose()  # type: ignore[attr-defined]  # a generator
        assert session._ends == before
        assert len(session._asked) == 1
        session._let_go(session._parts)
        assert session._asked == []
        assert session._is_asleep

    run(body, ScriptedModel([call("pay"), say("hi")]))


def test_an_event_that_comes_from_the_log_and_live_is_yielded_once() -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST)
        await session.ask("go")
        recorded = [event async for event in _first(session, 3)]

        async def twice(start: int, live: object) -> AsyncIterator[Event]:
            for event in (*recorded, *recorded[1:], recorded[2]):
                yield event

        session._events = twice  # type: ignore[method-assign]  # replaced on purpose
        assert [event.seq async for event in session.events()] == [1, 2, 3]
        assert [event.seq async for event in session.events(2)] == [2, 3]

    run(body, MODEL)


async def _first(session: Session, count: int) -> AsyncIterator[Event]:
    async for event in session.events():
        yield event
        if event.seq == count:
            return
