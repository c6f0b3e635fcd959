"""Each session has a title, also one that was opened before its first prompt."""

import asyncio
import sqlite3
from pathlib import Path

from callboard.replay.reading import titled
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.log.reading import open_reader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from tests.cli.recorded import add_session
from tests.golden import golden
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
