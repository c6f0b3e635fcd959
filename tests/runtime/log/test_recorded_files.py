"""The files of a session as its log knows them, in each store."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path

import pytest

from callboard import Agent, Call, Files, Reply, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.errors import MissingVersions, SessionNotFound, UnknownName
from callboard.files import files_of
from callboard.log import EventLog, MemoryLog, SQLiteLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.secrets.redactor import Redactor
from tests.runtime.files.history_kit import Told

_TEXT = "".join(f"a line with the number {number * 7919 % 10_007}\n" for number in range(2_000))


@tool(effect="write")
def change(number: int, ctx: ToolContext) -> str:
    """Change a line of a file."""
    ctx.files.write_text("a", _TEXT.replace("number 0\n", f"number {number}\n"))
    return "done"


HOST = Agent("host", tools=[change])


def record(log: EventLog | Path, root: Path, *sessions: str) -> None:
    root.mkdir(exist_ok=True)

    def answer(number: int) -> Call | Reply:
        return call("change", number=number) if number <= 3 else say("done")

    for session_id in sessions:
        model = ScriptedModel(lambda request: answer(request.turn))
        files = Files(root, write=["."], history=True)
        Runtime(log, model=model, files=files).run_sync(HOST, "go", session_id=session_id)


def test_a_memory_log_has_the_versions(tmp_path: Path) -> None:
    log = MemoryLog()
    record(log, tmp_path / "root", "s")
    found = files_of(Recording.open(MemoryReader(log), "s"))
    assert found.read("a").decode() == _TEXT.replace("number 0\n", "number 3\n")


@pytest.mark.parametrize("key", [None, b"k" * 32])
def test_versions_are_stored_once_encrypted_and_removed_with_their_last_session(
    tmp_path: Path, key: bytes | None
) -> None:
    path = tmp_path / "c.db"

    def log() -> SQLiteLog:
        return SQLiteLog(path, encryption_key=key)

    record(log(), tmp_path / "root", "one")
    blobs = _blobs(path)
    (tmp_path / "root/a").unlink()
    record(log(), tmp_path / "root", "two")
    assert _blobs(path) == blobs  # both sessions have the same versions
    recording = Recording.open(str(path), "two", encryption_key=key)
    found = files_of(recording, is_checked=True)
    assert found.read("a").decode() == _TEXT.replace("number 0\n", "number 3\n")
    assert (b'"path":"a"' in path.read_bytes()) == (key is None)
    _remove(log(), "one")
    assert _blobs(path) == blobs
    assert files_of(Recording.open(str(path), "two", encryption_key=key)).read("a") == found.read("a")
    _remove(log(), "two")
    assert _blobs(path) == 0
    with pytest.raises(SessionNotFound):
        Recording.open(str(path), "two", encryption_key=key)


def _blobs(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM blobs").fetchone()[0])


def _remove(log: SQLiteLog, session_id: str) -> None:
    async def main() -> None:
        await log.open()
        try:
            await log.delete(session_id)
            while await log.purge():
                pass
            await log.vacuum(None)
        finally:
            await log.close()

    asyncio.run(main())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.learn("KEY", "open-sesame")
    told = Told(tmp_path / "root", redactor=redactor)
    told.write("a", b"open-sesame")
    with pytest.raises(UnknownName, match="was not there at event 0"):
        told.recorded(0).read("a")
    with pytest.raises(UnknownName, match="the history does not know it"):
        told.recorded().read("b")
    with pytest.raises(MissingVersions, match="it held a secret"):
        told.recorded().read("a")
    assert (told.recorded().knows("a", ""), told.recorded().knows("a", "0")) == (True, False)
