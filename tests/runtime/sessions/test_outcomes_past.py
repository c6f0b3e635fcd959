"""Outcomes that are read from the log of a session that runs nowhere, or elsewhere."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.errors import SessionNotFound, UnknownName
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions import outcomes
from callboard.runtime.sessions.outcomes import past_outcome
from callboard.runtime.sessions.session_pages import pages_from
from callboard.runtime.sessions.session_types import SessionTypes
from callboard.runtime.tools.tool import tool

TYPES = SessionTypes({}, "host", ())


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    """Return a log with a session of three asks, the last of which runs on."""
    made = MemoryLog()

    @tool(effect="read")
    async def wait() -> str:
        """Wait forever."""
        await asyncio.Event().wait()
        return ""

    host = Agent("host", tools=[wait])

    async def work() -> None:
        async with Runtime(made, model=ScriptedModel([say("one"), say("two"), call("wait")])) as runtime:
            session = await runtime.open(host, session_id="s")
            for name in ("a", "b"):
                await session.ask("go", request_id=name)
            await session.submit("go", request_id="c")
            await session.detach(0)
            await runtime.open(Agent("host"), session_id="empty")

    asyncio.run(work())
    return made


def found(log: MemoryLog, request_id: str | None, session_id: str = "s") -> Any:
    async def work() -> Any:
        await log.open()
        return await past_outcome(log, session_id, request_id, TYPES)

    return asyncio.run(work())


@pytest.mark.parametrize(("request_id", "text"), [("a", "one"), ("b", "two"), (None, "two")])
def test_an_ask_that_ended_is_found_by_its_id_or_as_the_latest(
    log: MemoryLog, request_id: str | None, text: str
) -> None:
    outcome = found(log, request_id)
    assert (outcome.text, outcome.session_id) == (text, "s")
    assert outcome.request_id == (request_id or "b")


def test_its_head_is_that_of_the_log_where_it_ended(log: MemoryLog) -> None:
    first, second = found(log, "a"), found(log, "b")
    rows = asyncio.run(log.read("s"))
    for one in (first, second):
        assert one.head == (one.head[0], rows[one.head[0] - 1].digest.hex())
        assert b'"AskEnded"' in rows[one.head[0] - 1].body
    assert first.head[0] < second.head[0]


def test_an_ask_that_runs_has_no_outcome_and_one_that_is_not_there_is_an_error(log: MemoryLog) -> None:
    assert found(log, "c") is None
    with pytest.raises(UnknownName, match="session s has no ask with the request id 'unknown'"):
        found(log, "unknown")


def test_a_session_without_asks_has_none_and_an_unknown_one_is_named(log: MemoryLog) -> None:
    assert found(log, None, "empty") is None
    with pytest.raises(SessionNotFound):
        found(log, None, "gone")


def test_the_first_end_of_an_id_counts_and_the_last_of_any(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = [SimpleNamespace(end=SimpleNamespace(request_id=name), at=at) for at, name in enumerate("aba")]

    async def ended(*given: Any) -> Any:
        for ask in asks:
            yield ask, (ask.at, "digest")

    monkeypatch.setattr(outcomes, "_ended", ended)
    monkeypatch.setattr(outcomes, "outcome_of", lambda name, ask, head, types: (name, ask.at, head))
    log: Any = "log"
    places: list[Any] = [asyncio.run(past_outcome(log, "s", name, TYPES)) for name in ("a", "b", None)]
    assert places == [("s", at, (at, "digest")) for at in (0, 1, 2)]


def test_the_first_event_of_a_log_is_read_too(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    pages = pages_from

    def noted(log: Any, session_id: str, start: int) -> Any:
        starts.append(start)
        return pages(log, session_id, start)

    monkeypatch.setattr(outcomes, "pages_from", noted)
    assert found(log, "a").text == "one"
    assert starts == [1]
