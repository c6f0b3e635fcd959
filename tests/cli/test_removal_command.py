"""`callboard delete`, `prune` and `vacuum`."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.cli import removal_command
from callboard.replay.testing.stores.events import large
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.reading import open_reader
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.sessions.session import Session
from tests.cli.conftest import Callboard
from tests.cli.test_approvals_command import Run, beside
from tests.runtime.ports.test_approval_port import NAME

PENDING = "meta WHERE key LIKE 'removal%'"


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
    monkeypatch.setattr(removal_command, "is_terminal", lambda stream: True)
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


@pytest.mark.parametrize("cuts", ["[[1", '["x"]', "[5, [0, 9]]"])
def test_a_session_whose_places_of_large_values_are_damaged_takes_its_values_along(
    callboard: Callboard, own_log: Path, cuts: str
) -> None:
    connection = sqlite3.connect(own_log)
    with connection:
        connection.execute("UPDATE events SET cuts = ? WHERE id = (SELECT max(id) FROM events)", (cuts,))
    connection.close()
    for session in ("20250103", "20250101", "20250102"):
        assert callboard("delete", session, "--yes", "--log", str(own_log)).exit_code == 0
    connection = sqlite3.connect(own_log)
    for table in ("sessions", "events", "blobs", "uses", "tags", PENDING):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    connection.close()


def test_a_session_that_was_marked_only_is_removed_by_the_next_command(
    callboard: Callboard, own_log: Path
) -> None:
    async def mark() -> None:
        log = SQLiteLog(own_log)
        await log.open()
        await log.delete("20250101-survey")
        await log.close()

    asyncio.run(mark())
    assert "20250101" not in callboard("sessions", "--log", str(own_log)).stdout
    for command in ("show", "events", "verify", "export", "delete"):
        assert callboard(command, "20250101-survey", "--log", str(own_log)).exit_code == 3, command
    assert callboard("vacuum", "--log", str(own_log)).exit_code == 0
    connection = sqlite3.connect(own_log)
    assert connection.execute(f"SELECT count(*) FROM {PENDING}").fetchone() == (0,)
    assert connection.execute("SELECT count(DISTINCT id >> 32) FROM events").fetchone() == (2,)
    connection.close()


def test_old_sessions_are_pruned_by_age_status_and_tag(callboard: Callboard, own_log: Path) -> None:
    log = ("--log", str(own_log))
    assert "no session is that old" in callboard("delete", "--older-than", "9999d", *log).stderr
    assert callboard("delete", "--older-than", "0s", *log).exit_code == 2  # not a terminal: it cannot ask
    assert "no session" in callboard("delete", "--older-than", "0s", "--tag", "x", "--yes", *log).stderr
    done = callboard("delete", "--older-than", "0s", "--status", "unfinished", "--yes", *log)
    assert "no session is that old" in done.stderr
    done = callboard("delete", "--older-than", "0s", "--yes", *log)
    assert "3 sessions deleted" in done.stderr
    assert callboard("sessions", *log).stdout == ""


@pytest.mark.parametrize("full", [False, True])
def test_vacuum_makes_the_file_smaller(callboard: Callboard, own_log: Path, full: bool) -> None:
    async def fill() -> None:
        log = SQLiteLog(own_log)
        await log.open()
        await log.create("large", 1, "")
        await log.append([Append("large", 0, 1, [large(seq, 50_000 + seq) for seq in range(1, 40)])])
        await log.delete("large")
        while await log.purge():
            pass
        await log.close()

    asyncio.run(fill())
    before = own_log.stat().st_size
    done = callboard("vacuum", *(["--full"] if full else []), "--log", str(own_log))
    assert done.exit_code == 0, done.stderr
    assert "less than before" in done.stderr
    assert own_log.stat().st_size < before / 2
    assert callboard("verify", "--all", "--log", str(own_log)).exit_code == 0


@pytest.mark.parametrize(
    "command", [("vacuum",), ("vacuum", "--full"), ("delete", "--older-than", "0s", "--yes")]
)
def test_a_log_with_an_owner_is_not_touched_and_the_owner_is_named(
    callboard: Callboard, own_log: Path, command: tuple[str, ...]
) -> None:
    async def work() -> None:
        log = SQLiteLog(own_log)
        await log.open()
        done = await asyncio.to_thread(callboard, *command, "--log", str(own_log))
        assert done.exit_code == 1
        assert "is owned by" in done.stderr
        assert "Traceback" not in done.stderr
        await log.close()

    asyncio.run(work())


def test_a_missing_log_is_not_made(callboard: Callboard, tmp_path: Path) -> None:
    assert callboard("vacuum", "--log", str(tmp_path / "no.db")).exit_code == 3
    assert list(tmp_path.iterdir()) == []


def names(log: Path) -> list[str]:
    with open_reader(log) as reader:
        return sorted(row.session_id for row in reader.sessions())


def test_a_session_that_runs_is_neither_deleted_nor_pruned_by_its_owner(
    callboard: Callboard, own_log: Path
) -> None:
    async def talk(session: Session, run: Run) -> None:
        busy = await run("delete", NAME, "--yes")
        assert busy.exit_code == 2
        assert "runs here and is not deleted" in busy.stderr
        done = await run("delete", "20250101-survey", "--yes")
        assert done.exit_code == 0, done.stderr
        assert names(own_log).count(NAME) == 1
        assert "20250101-survey" not in names(own_log)
        pruned = await run("delete", "--older-than", "0h", "--status", "any", "--yes")
        assert pruned.stderr == "2 sessions deleted\n"

    beside(callboard, own_log, talk)
    assert names(own_log) == [NAME]


def test_with_an_owner_vacuum_is_done_by_the_owner_and_a_full_one_refused(
    callboard: Callboard, tmp_path: Path
) -> None:
    log = tmp_path / "live.db"

    async def work() -> None:
        async with Runtime(log, model=ScriptedModel(lambda _: say("hi"))) as runtime:
            await runtime.run(Agent("host"), "words " * 60_000, session_id="large")
            live = await runtime.open(Agent("host"), session_id="live")
            await runtime.delete("large")
            done = await asyncio.to_thread(callboard, "vacuum", "--log", str(log))
            assert "bytes less than before" in done.stderr, done.stderr
            assert runtime.stats().log_bytes < 250_000
            refused = await asyncio.to_thread(callboard, "vacuum", "--full", "--log", str(log))
            assert refused.exit_code == 1
            assert "is owned by" in refused.stderr
            assert (await live.ask("go")).is_ok
            await live.close()

    asyncio.run(work())


def fork_all(path: Path) -> None:
    """Fork a session, and that fork, and the second one twice."""

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        for name, parent, base in (("f", "20250101-survey", 9), ("g", "f", 5), ("h", "f", 9), ("i", "h", 9)):
            await log.fork(name, 1, "", parent, base)
        await log.close()

    asyncio.run(work())


def test_a_session_with_forks_is_deleted_with_them_or_not_at_all(callboard: Callboard, own_log: Path) -> None:
    fork_all(own_log)
    done = callboard("delete", "20250101-survey", "--yes", "--log", str(own_log))
    assert done.exit_code == 2
    assert "has forks, which share its first events: f, g, h, i; delete those first" in done.stderr
    assert callboard("verify", "--all", "--log", str(own_log)).exit_code == 0
    done = callboard("delete", "20250101-survey", "--with-forks", "--yes", "--log", str(own_log))
    assert done.exit_code == 0, done.stderr
    with open_reader(own_log) as reader:
        assert not {row.session_id for row in reader.sessions()} & {*"fghi", "20250101-survey"}


def test_prune_takes_a_session_with_its_forks_once_all_are_old(callboard: Callboard, own_log: Path) -> None:
    fork_all(own_log)  # they are open, and so none of their tree goes
    assert callboard("delete", "--older-than", "0m", "--yes", "--log", str(own_log)).exit_code == 0
    with open_reader(own_log) as reader:
        assert {*"fghi", "20250101-survey"} <= {row.session_id for row in reader.sessions()}
    options = ("--older-than", "0m", "--status", "any", "--yes", "--log", str(own_log))
    assert callboard("delete", *options).exit_code == 0
    with open_reader(own_log) as reader:
        assert not {row.session_id for row in reader.sessions()} & {*"fghi", "20250101-survey"}


def test_a_session_goes_and_its_forks_stay(callboard: Callboard, own_log: Path) -> None:
    fork_all(own_log)
    log = ("--log", str(own_log))
    assert callboard("delete", "20250101", "--keep-forks", "--with-forks", "--yes", *log).exit_code == 2
    done = callboard("delete", "20250101-survey", "--keep-forks", "--yes", *log)
    assert done.exit_code == 0, done.stderr
    assert "20250101-survey deleted, 19 events" in done.stderr
    assert callboard("show", "20250101-survey", *log).exit_code == 3
    assert callboard("show", "f", *log).exit_code == 0
    assert callboard("delete", "20250101-survey", "--yes", *log).exit_code == 3
    done = callboard("export", "f", "--format", "db", "-o", str(own_log.with_name("copy.db")), *log)
    assert done.exit_code == 0, done.stderr
    with open_reader(own_log.with_name("copy.db")) as reader:
        assert reader.verify_chain("f").seq == 9
    for name in "ighf":
        assert callboard("delete", name, "--yes", *log).exit_code == 0, name
    connection = sqlite3.connect(own_log)
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
    assert connection.execute("SELECT count(DISTINCT id >> 32) FROM events").fetchone() == (2,)
    connection.close()


def test_an_owner_deletes_a_session_and_keeps_its_forks(callboard: Callboard, own_log: Path) -> None:
    fork_all(own_log)

    async def talk(session: Session, run: Run) -> None:
        done = await run("delete", "20250101-survey", "--keep-forks", "--yes")
        assert done.exit_code == 0, done.stderr
        assert {*"fghi"} <= set(names(own_log))

    beside(callboard, own_log, talk)
    assert "20250101-survey" not in names(own_log)


def test_the_forks_of_a_deleted_session_are_pruned_together(callboard: Callboard, own_log: Path) -> None:
    fork_all(own_log)
    log = ("--log", str(own_log))
    assert callboard("delete", "20250101-survey", "--keep-forks", "--yes", *log).exit_code == 0
    assert callboard("delete", "--older-than", "0m", "--status", "any", "--yes", *log).exit_code == 0
    assert names(own_log) == []
    connection = sqlite3.connect(own_log)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    connection.close()


def test_a_session_or_an_age_is_named_and_not_both(callboard: Callboard) -> None:
    for options in (
        ("one", "--older-than", "1d"),
        ("--older-than", "1d", "--with-forks"),
        ("one", "--tag", "x"),
    ):
        assert callboard("delete", *options, "--yes").exit_code == 2, options
    assert "name the session" in callboard("delete", "--yes").stderr
