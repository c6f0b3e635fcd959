"""The sessions that the tests of the command line look at, recorded once by a real runtime."""

import asyncio
import sqlite3
from pathlib import Path

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.profiles import Prices
from callboard.runtime.agent import Agent
from callboard.runtime.log.protocol import EMPTY, Append, event_of
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
ATTACK = "\x1b[2J\x1b]52;c;aGk=\x07 \x9b31m\u202eevil\r\n999  host → client  AskEnded  ok"
"""Clears the screen, fills the clipboard, turns text around, and forges a line."""


@tool(effect="read")
def count_files(folder: str) -> str:
    """Count the files in a folder."""
    return f"{folder}: 3 files {ATTACK}"


def survey_host() -> Agent:
    """Make a host that delegates twice, once to an agent that does not exist."""
    counter = Agent("counter", description="Counts.", tools=[count_files])
    return Agent("host", description="Answers.", agents=[counter], tools=[count_files])


def script() -> ScriptedModel:
    """Make the script of a survey with delegations."""
    return ScriptedModel(
        {
            "host": [
                calls(
                    call("task", agent="counter", prompt="Count the files in src"),
                    call("task", agent="nobody", prompt="Do anything"),
                    text="Let me see.",
                ),
                say(f"There are 3 files.\nThat is all.{ATTACK}"),
            ],
            "counter": [call("count_files", folder="src"), say("3 files")],
        },
        prices=Prices(3, 15),
    )


def report_script() -> ScriptedModel:
    """Make the script of a report that does not match its schema, and of one that does."""
    return ScriptedModel([call("report_back", count="three"), call("report_back", count=3)])


async def _record(path: Path) -> None:
    async with Runtime(path, model=script(), durability="process") as runtime:
        await runtime.run(survey_host(), "How many files\nare there?", session_id="20250101-survey")
    async with Runtime(path, model=report_script(), durability="process") as runtime:
        agent = Agent("reporter")
        await runtime.run(agent, "Count.", output_schema=SCHEMA, session_id="20250102-report")
    failing = ScriptedModel([call("count_files", folder="."), call("count_files", folder="..")])
    async with Runtime(path, model=failing, durability="process") as runtime:
        agent = Agent("host", tools=[count_files])
        await runtime.run(agent, "Go on for ever.", session_id="20250103-failed")


def record(path: Path) -> None:
    """Record three closed sessions: a survey, a report, and one that failed."""
    asyncio.run(_record(path))


def rows_of(path: Path, session_id: str) -> list[Event]:
    """Read the events of a session."""

    async def read() -> list[Event]:
        log = SQLiteLog(path)
        await log.open()
        try:
            return [event_of(session_id, one) for one in await log.read(session_id)]
        finally:
            await log.close()

    return asyncio.run(read())


def add_session(path: Path, session_id: str, events: list[Event]) -> None:
    """Add a session made of these events, with correct digests."""

    async def write() -> None:
        log = SQLiteLog(path, durability="process")
        await log.open()
        try:
            epoch = await log.create(session_id, 1_735_900_000_000, "made by hand")
            await log.append([Append(session_id, EMPTY.seq, epoch, events)])
        finally:
            await log.close()

    asyncio.run(write())


def diverging(events: list[Event]) -> list[Event]:
    """Return the same events, except for one that no decider would post."""
    place = next(place for place, one in enumerate(events) if isinstance(one.body, TurnRequested))
    body = msgspec.structs.replace(events[place].body, attempt=7)
    return [*events[:place], msgspec.structs.replace(events[place], body=body), *events[place + 1 :]]


def damage(path: Path, seq: int) -> None:
    """Change one event of the oldest session behind the log's back."""
    connection = sqlite3.connect(path)
    with connection:
        first = connection.execute("SELECT min(id) FROM sessions").fetchone()[0]
        connection.execute("UPDATE events SET at = at + 1 WHERE id = ?", (first << 32 | seq,))
    connection.close()
