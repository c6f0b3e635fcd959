import asyncio
import sqlite3
from pathlib import Path

import pytest

from callboard.cli import delete_command
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard


def test_a_session_is_deleted_for_good_and_the_others_are_whole(callboard: Callboard, own_log: Path) -> None:
    done = callboard("delete", "20250101-survey", "--yes", "--log", str(own_log))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "session 20250101-survey deleted, 28 events" in done.stderr
    assert callboard("show", "20250101-survey", "--log", str(own_log)).exit_code == 3
    assert callboard("verify", "--all", "--log", str(own_log)).exit_code == 0
    assert b"How many files" not in own_log.read_bytes()
    assert callboard("delete", "20250101-survey", "--yes", "--log", str(own_log)).exit_code == 3


@pytest.mark.parametrize(("answer", "is_deleted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_it_asks_first(
    callboard: Callboard, own_log: Path, monkeypatch: pytest.MonkeyPatch, answer: str, is_deleted: bool
) -> None:
    monkeypatch.setattr(delete_command, "is_terminal", lambda stream: True)
    done = callboard("delete", "20250102", "--log", str(own_log), text=answer)
    assert "Delete session 20250102-report (" in done.stderr
    assert done.exit_code == (0 if is_deleted else 2)
    left = callboard("show", "20250102", "--log", str(own_log)).exit_code
    assert left == (3 if is_deleted else 0)


def test_off_a_terminal_it_needs_the_option(callboard: Callboard, own_log: Path) -> None:
    before = own_log.read_bytes()
    done = callboard("delete", "20250102", "--log", str(own_log))
    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert callboard("delete", "", "--yes", "--log", str(own_log)).exit_code == 2
    assert own_log.read_bytes() == before


def test_a_log_that_is_open_elsewhere_is_left_alone(callboard: Callboard, own_log: Path) -> None:
    async def work() -> None:
        log = SQLiteLog(own_log, "process")
        await log.open()
        done = await asyncio.to_thread(callboard, "delete", "20250102", "--yes", "--log", str(own_log))
        assert done.exit_code == 1
        assert "is owned by" in done.stderr
        assert len(await log.sessions()) == 3
        await log.close()

    asyncio.run(work())


@pytest.mark.parametrize(("cuts", "code"), [("[[1", 4), ('["x"]', 4), ("[5, [0, 9]]", 0)])
def test_damaged_places_of_large_values_are_a_damaged_log(
    callboard: Callboard, own_log: Path, cuts: str, code: int
) -> None:
    connection = sqlite3.connect(own_log)
    with connection:
        connection.execute("UPDATE events SET cuts = ? WHERE id = (SELECT max(id) FROM events)", (cuts,))
    connection.close()
    done = callboard("delete", "20250103", "--yes", "--log", str(own_log))
    assert done.exit_code == code  # the last is JSON, and names no large value that could be deleted
    assert ("is damaged" in done.stderr) == (code == 4)
    assert callboard("delete", "20250101", "--yes", "--log", str(own_log)).exit_code == 0
