"""The usage of sessions: stored with their events, summed up, and filled in where it is missing."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel, Usage, call, say, tool
from callboard.actors.protocol.profiles import Prices
from callboard.errors import CorruptLog, MisuseError
from callboard.log import MemoryLog, SQLiteLog
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.log.session_rows import SessionRow
from callboard.runtime.sessions.usage import fill_usage, tags_of

PRICES = Prices(1, 5)


@tool(effect="read")
def look() -> str:
    """Look something up."""
    return "found"


def model(name: str) -> ScriptedModel:
    usage = Usage(input_tokens=100, output_tokens=10)
    return ScriptedModel(
        lambda request: call("look") if request.turn == 1 and request.tools else say("done"),
        name=name,
        usage=usage,
        prices=PRICES,
    )


HOST = Agent("host", model=model("small"), tools=[look])
OTHER = Agent("other", model=model("big"))


def kinds(path: Path) -> dict[str, Callable[[], EventLog]]:
    return {
        "memory": MemoryLog,
        "sqlite": lambda: SQLiteLog(path),
        "encrypted": lambda: SQLiteLog(path, encryption_key=b"k" * 32),
    }


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EventLog:
    return kinds(tmp_path / "log.db")[request.param]()


def within(log: EventLog, body: Callable[[Runtime], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Runtime(log) as runtime:
            await body(runtime)

    asyncio.run(main())


async def three_sessions(runtime: Runtime) -> int:
    """Run three sessions. Return the tokens of their outcomes."""
    outcomes = [
        await runtime.run(HOST, "go", session_id="a", tags=["t:x", "batch"]),
        await runtime.run(HOST, "go", session_id="b", tags=["t:y"]),
        await runtime.run(OTHER, "go", session_id="c"),
    ]
    return sum(outcome.usage.tokens for outcome in outcomes)


def test_sums_are_those_of_the_outcomes_and_each_session_has_its_own(log: EventLog) -> None:
    async def body(runtime: Runtime) -> None:
        tokens = await three_sessions(runtime)
        report = await runtime.usage()
        assert {line.key: line.usage.calls for line in report.lines} == {"small": 4, "big": 1}
        assert report.total.tokens == tokens
        assert not report.overlaps
        rows = {row.session_id: row async for row in runtime.sessions()}
        assert {name: row.usage.calls for name, row in rows.items()} == {"a": 2, "b": 2, "c": 1}
        assert sum(row.usage.micro_usd for row in rows.values()) == report.total.micro_usd > 0

    within(log, body)


def test_usage_is_summed_up_by_profile_tag_and_day_and_by_the_sessions_of_a_tag(log: EventLog) -> None:
    async def body(runtime: Runtime) -> None:
        await three_sessions(runtime)
        by_profile = await runtime.usage(by="profile")
        assert {line.key: line.usage.calls for line in by_profile.lines} == {"host": 4, "other": 1}
        by_tag = await runtime.usage(by="tag")
        found = {line.key: line.usage.calls for line in by_tag.lines}
        assert (found, by_tag.overlaps) == ({"": 1, "batch": 2, "t:x": 2, "t:y": 2}, True)
        assert by_tag.total.calls == 5
        assert (await runtime.usage(tag="t:x")).total.calls == 2
        (day,) = (await runtime.usage(by="day")).lines
        assert len(day.key) == 10
        with pytest.raises(MisuseError, match="'day', 'model', 'profile', 'tag'"):
            await runtime.usage(by="week")  # type: ignore[arg-type]  # wrong on purpose

    within(log, body)


def test_a_resumed_session_adds_to_its_usage_and_a_deleted_one_has_none(log: EventLog) -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="s")
        await session.ask("one")
        await session.detach()
        session = await runtime.resume("s", HOST)
        await session.ask("two")
        assert (await runtime.usage()).total.calls == 3
        await session.close()
        await runtime.delete("s")
        assert (await runtime.usage()).lines == ()

    within(log, body)


def test_a_fork_has_only_the_usage_of_its_own_calls(log: EventLog) -> None:
    async def body(runtime: Runtime) -> None:
        session = await runtime.open(HOST, session_id="s")
        await session.ask("one")
        await session.detach()
        fork = await runtime.fork("s", HOST, at=2, fork_id="f")
        await fork.outcome
        await fork.ask("two")
        await fork.close()
        rows = {row.session_id: row.usage.calls async for row in runtime.sessions()}
        assert rows == {"s": 2, "f": 1}
        await runtime.log.set_usage("f", [])
        assert await fill_usage(runtime.log) == 1
        assert (await runtime.usage()).total.calls == 3

    within(log, body)


def test_missing_usage_is_filled_in_once_from_the_events(log: EventLog) -> None:
    async def body(runtime: Runtime) -> None:
        await three_sessions(runtime)
        before = await runtime.usage(by="profile")
        for name in "ab":
            await runtime.log.set_usage(name, [])
        assert (await runtime.usage()).total.calls == 1
        assert await fill_usage(runtime.log) == 2
        assert await fill_usage(runtime.log) == 0
        assert await runtime.usage(by="profile") == before

    within(log, body)


def test_the_sessions_of_a_tag_are_those_that_have_it() -> None:
    rows = [
        SessionRow(name, 1, 0, 0, "", n, tags=tags)
        for n, (name, tags) in enumerate({"a": ("x", "y"), "b": ()}.items())
    ]
    assert tags_of(rows, None) == {"a": ("x", "y"), "b": ()}
    assert tags_of(rows, "y") == {"a": ("x", "y")}
    assert tags_of(rows, "z") == {}


def test_damaged_usage_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    within(SQLiteLog(path), lambda runtime: three_sessions(runtime))  # type: ignore[arg-type, return-value]  # its result does not matter
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE usage SET calls = 'x' WHERE profile = 'other'")

    async def body(runtime: Runtime) -> None:
        with pytest.raises(CorruptLog, match="usage --fill"):
            await runtime.usage()

    within(SQLiteLog(path), body)
