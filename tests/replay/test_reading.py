"""Each session has a title, also one that was opened before its first prompt."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from callboard.replay.reading import titled
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log import hash_chain
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Stored
from callboard.runtime.log.reading import open_reader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import add_session
from tests.golden import golden, stored
from tests.replay.page.kit import PageData, page_of


async def _record(path: Path) -> None:
    async with Runtime(path, model=ScriptedModel(lambda _: say("Fine.")), durability="process") as runtime:
        for name in ("opened", "damaged"):
            async with await runtime.open(Agent("host"), session_id=name) as session:
                await session.ask("How are you?\nTell me.")
                await session.ask("And now?")
        async with await runtime.open(Agent("host"), session_id="unasked"):
            pass
        await runtime.run(Agent("host"), "Say it.", session_id="given")


def test_the_pages_of_an_actor_hold_few_bytes_where_its_events_are_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = golden("everything")
    recording = Recording.open(MemoryReader(stored(events)))
    source, asked = recording._source, list[int]()
    events_of = source.reader.events_of

    def counted(session_id: str, address: str, first: int, last: int, limit: int) -> list[Stored]:
        asked.append(limit)
        return events_of(session_id, address, first, last, limit)

    monkeypatch.setattr(source.reader, "events_of", counted)
    monkeypatch.setattr(hash_chain, "PAGE_BYTES", 1_000)
    monkeypatch.setattr(hash_chain, "FIRST_EVENTS", 4)
    found = [row.seq for row in source.of_actor("host", 1, len(events))]
    assert found == [event.seq for event in events if "host" in (event.sender, event.recipient)]
    assert len(asked) >= 4
    assert max(asked) < 20


def test_a_session_without_a_title_has_its_first_prompt(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    asyncio.run(_record(path))
    add_session(path, "old", golden("everything", 1))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sessions SET title = '' WHERE session_id IN ('old', 'damaged')")
        connection.execute(
            "UPDATE events SET body = 'no JSON' WHERE id / 4294967296 = "
            "(SELECT id FROM sessions WHERE session_id = 'damaged') AND id % 4294967296 = 2"
        )
    connection.close()
    with open_reader(path) as reader:
        titles = {row.session_id: row.title for row in titled(reader, reader.sessions())}
        page = PageData(page_of(Recording.open(reader, "opened")))
    assert titles == {
        "opened": "How are you?\nTell me.",
        "damaged": "",
        "unasked": "",
        "given": "Say it.",
        "old": "go",
    }
    assert page.summary["title"] == "How are you?\nTell me."
