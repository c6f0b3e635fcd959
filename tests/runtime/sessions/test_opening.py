"""An opening does nothing before it is awaited or entered, and ends as its session does."""

import asyncio
from types import TracebackType
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import SessionClosed
from callboard.actors.protocol.errors import SessionExists
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.opening import Opening

HOST = Agent("host", model=ScriptedModel(lambda request: say("done")))


def test_nothing_happens_before_an_opening_is_awaited() -> None:
    async def scene() -> list[int]:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            opening = runtime.open(HOST, session_id="one")
            before = len(await log.sessions())
            await opening
            return [before, len(await log.sessions())]

    assert asyncio.run(scene()) == [0, 1]


@pytest.mark.parametrize("how", ["open", "resume", "reopen"])
def test_a_session_may_be_awaited_or_entered_whatever_opens_it(how: str) -> None:
    async def scene() -> bool:
        log = MemoryLog()
        async with Runtime(log) as runtime:
            if how != "open":
                session = await runtime.open(HOST, session_id="one")
                await (session.detach() if how == "resume" else session.close())
            opening = {
                "open": lambda: runtime.open(HOST, session_id="one"),
                "resume": lambda: runtime.resume("one", HOST),
                "reopen": lambda: runtime.reopen("one", HOST),
            }[how]()
            async with opening as session:
                assert (await session.ask("go")).is_ok
        events = Recording.open(MemoryReader(log), "one").events
        return isinstance(events[-1].body, SessionClosed)

    assert asyncio.run(scene())


def test_an_opening_that_fails_leaves_nothing_to_close() -> None:
    async def scene() -> None:
        async with Runtime(":memory:") as runtime:
            await runtime.open(HOST, session_id="one")
            with pytest.raises(SessionExists):
                async with runtime.open(HOST, session_id="one"):
                    raise AssertionError("it was opened")

    asyncio.run(scene())


def test_a_session_is_told_how_its_block_ended() -> None:
    told: list[object] = []

    class Leaving:
        async def __aexit__(self, *how: object) -> None:
            told.extend(how)

    async def opens() -> Any:
        return Leaving()

    async def scene() -> None:
        opening = Opening(opens)
        await opening.__aexit__(None, None, None)
        assert told == [], "it was never entered"
        async with opening:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as raised:
        asyncio.run(scene())
    kind, error, trace = told
    assert (kind, error) == (ValueError, raised.value)
    assert isinstance(trace, TracebackType)
