import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.events import Event
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.reading import open_reader
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, damage, diverging, rows_of
from tests.replay.exports.kit import events_of
from tests.runtime.imports.transcripts import Writer, write


def test_all_sessions_come_back_and_verify(callboard: Callboard, tmp_path: Path) -> None:
    assert callboard("export", "--all", "-o", "all.jsonl").exit_code == 0
    done = callboard("import", "all.jsonl", "--log", "new.db")
    assert done.exit_code == 0, done.stderr
    assert "3 sessions" in done.stderr
    assert callboard("verify", "--all", "--log", "new.db").exit_code == 0
    again = callboard("export", "--all", "--log", "new.db")
    assert again.stdout == (tmp_path / "all.jsonl").read_text()
    assert callboard("show", "--json", "--log", "new.db").stdout == callboard("show", "--json").stdout


def test_stdin_is_read_and_a_divergence_is_imported_as_it_is(callboard: Callboard, own_log: Path) -> None:
    add_session(own_log, "other", diverging(rows_of(own_log, "20250101-survey")))
    content = callboard("export", "other", "--log", str(own_log)).stdout
    assert callboard("import", "-", "--log", "new.db", text=content).exit_code == 0
    assert callboard("verify", "other", "--log", "new.db").exit_code == 5


def test_an_imported_session_can_be_written_on(callboard: Callboard, tmp_path: Path) -> None:
    callboard("export", "20250101", "-o", "s.jsonl")
    callboard("import", "s.jsonl", "--log", "new.db")

    async def write() -> None:
        log = SQLiteLog(tmp_path / "new.db", "process")
        await log.open()
        epoch, head = await log.take_over("20250101-survey")
        (answer,) = await log.append([Append("20250101-survey", 28, epoch, events_of([Cancel()] * 29)[28:])])
        await log.close()
        assert isinstance(answer, Head), answer
        assert head.seq == 28

    asyncio.run(write())


def test_an_import_charges_no_budget_that_bound_its_sessions(callboard: Callboard, folder: Path) -> None:
    budget = ("--budget", "*=100k tokens", "--log", "bound.db")
    assert callboard("run", "survey:host", "How many files?", *budget).exit_code == 0
    assert json.loads(callboard("budgets", "--json", "--log", "bound.db").stdout)["spent"]
    content = callboard("export", "--all", "--log", "bound.db").stdout
    assert callboard("import", "-", "--log", "new.db", text=content).exit_code == 0
    found = json.loads(callboard("budgets", "--json", "--log", "new.db").stdout)
    assert (found["spent"], found["reserved"]) == ([], [])


def test_a_session_that_exists_is_refused_and_nothing_of_the_file_stays(
    callboard: Callboard, own_log: Path
) -> None:
    content = callboard("export", "20250101").stdout
    other = callboard("export", "20250102").stdout
    log = ("--log", str(own_log))
    callboard("delete", "20250102-report", "--yes", *log)
    done = callboard("import", "-", *log, text=other + content)
    assert done.exit_code == 1
    assert "has a session '20250101-survey' already" in done.stderr
    assert "20250102" not in callboard("sessions", *log).stdout
    assert callboard("verify", "--all", *log).exit_code == 0


@pytest.mark.parametrize("length", [0, 1, 12, 27])
def test_the_beginning_that_a_killed_import_left_is_completed(
    callboard: Callboard, own_log: Path, length: int
) -> None:
    add_session(own_log, "killed", rows_of(own_log, "20250101-survey"))
    log = ("--log", str(own_log))
    content = callboard("export", "killed", *log).stdout
    callboard("delete", "killed", "--yes", *log)
    add_session(own_log, "killed", rows_of(own_log, "20250101-survey")[:length])
    done = callboard("import", "-", *log, text=content)
    assert done.exit_code == 0, done.stderr
    assert f"1 session, {28 - length} event" in done.stderr
    assert callboard("export", "killed", *log).stdout == content
    assert callboard("import", "-", *log, text=content).exit_code == 1


def test_whole_sessions_that_a_killed_import_left_are_passed_over(
    callboard: Callboard, own_log: Path
) -> None:
    log = ("--log", str(own_log))
    content = callboard("export", "--all", *log).stdout
    events = rows_of(own_log, "20250102-report")
    for name in ("20250101-survey", "20250102-report"):
        callboard("delete", name, "--yes", *log)
    add_session(own_log, "20250102-report", events[:3])
    assert callboard("import", "-", *log, text=content).exit_code == 0
    names = [json.loads(line)["session"] for line in content.splitlines() if line.startswith('{"callboard')]
    assert names == ["20250103-failed", "20250102-report", "20250101-survey"]
    assert len(callboard("sessions", *log).stdout.splitlines()) == 4
    assert callboard("verify", "--all", *log).exit_code == 0
    assert callboard("import", "-", *log, text=content).exit_code == 1


def test_a_damaged_line_leaves_the_beginning_of_a_killed_import(callboard: Callboard, own_log: Path) -> None:
    log = ("--log", str(own_log))
    content = callboard("export", "20250101", *log).stdout.replace('"cause":14,', '"cause":13,', 1)
    events = rows_of(own_log, "20250101-survey")
    callboard("delete", "20250101-survey", "--yes", *log)
    add_session(own_log, "20250101-survey", events[:7])
    assert callboard("import", "-", *log, text=content).exit_code == 4
    assert rows_of(own_log, "20250101-survey") == events[:7]


@pytest.mark.parametrize("is_longer", [False, True])
def test_another_session_of_the_same_id_is_refused_and_stays(
    callboard: Callboard, own_log: Path, is_longer: bool
) -> None:
    log = ("--log", str(own_log))
    events = rows_of(own_log, "20250101-survey")
    content = callboard("export", "20250101", *log).stdout
    callboard("delete", "20250101-survey", "--yes", *log)
    other = [*diverging(events), *events_of([Cancel()] * 29)[28:]][: None if is_longer else 12]
    add_session(own_log, "20250101-survey", other)
    done = callboard("import", "-", *log, text=content)
    assert done.exit_code == 1
    assert "has a session '20250101-survey' already" in done.stderr
    assert rows_of(own_log, "20250101-survey") == other


def test_a_damaged_line_leaves_nothing_behind(callboard: Callboard, tmp_path: Path, own_log: Path) -> None:
    content = callboard("export", "20250101").stdout
    (tmp_path / "bad.jsonl").write_text(content.replace('"cause":14,', '"cause":13,', 1))
    done = callboard("import", "bad.jsonl", "--log", "new.db")
    assert done.exit_code == 4
    assert "does not match its digest" in done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["bad.jsonl", "own.db"]
    callboard("delete", "20250101-survey", "--yes", "--log", str(own_log))
    assert callboard("import", "bad.jsonl", "--log", str(own_log)).exit_code == 4
    assert "20250101" not in callboard("sessions", "--log", str(own_log)).stdout
    connection = sqlite3.connect(own_log)
    assert connection.execute("SELECT count(*) FROM sessions").fetchone() == (2,)
    connection.close()


def test_a_file_that_cannot_be_read_is_named(callboard: Callboard, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, code in (("nowhere.jsonl", 3), ("folder", 2)):
        done = callboard("import", name, "--log", "new.db")
        assert done.exit_code == code
        assert name in done.stderr
    assert callboard("import", "-", "--log", "new.db", text="").exit_code == 2
    assert callboard("import", "-", "--log", "new.db", text="{}\n").exit_code == 2
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]


def test_a_damaged_log_cannot_be_exported_for_an_import(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 7)
    done = callboard("export", "20250101", "--log", str(own_log))
    assert (done.exit_code, done.stdout) == (4, "")


# --- forks -----------------------------------------------------------------------------


def forked_log(path: Path) -> None:
    """Fork a session of a log at event 9, and that fork, which has an event of its own, at 5 and at 10."""

    async def work() -> None:
        log = SQLiteLog(path, "process")
        await log.open()
        await log.fork("f", 1, "a fork", "20250101-survey", 9)
        await log.append([Append("f", 9, 1, [replace(events_of([Cancel("own")])[0], 10)])])
        await log.fork("g", 2, "its beginning", "f", 5)
        await log.fork("h", 3, "of a fork", "f", 10)
        await log.close()

    def replace(event: Event, seq: int) -> Event:
        return Event(seq, event.at, event.sender, event.recipient, 0, event.body)

    asyncio.run(work())


def listed(callboard: Callboard, log: str) -> dict[str, object]:
    shown = json.loads(callboard("sessions", "--json", "--log", log).stdout)["sessions"]
    return {row["session"]: row["fork_of"] for row in shown}


def test_sessions_and_their_forks_come_back_as_they_were(callboard: Callboard, own_log: Path) -> None:
    forked_log(own_log)
    content = callboard("export", "--all", "--log", str(own_log)).stdout
    assert callboard("import", "-", "--log", "new.db", text=content).exit_code == 0
    assert listed(callboard, "new.db") == listed(callboard, str(own_log))
    assert callboard("export", "--all", "--log", "new.db").stdout == content
    with open_reader("new.db") as reader:
        assert [one.session_id for one in reader.segments("h")] == ["20250101-survey", "f", "h"]
        reader.verify_chain("h")


def test_a_fork_alone_brings_the_events_that_it_shares_and_no_other_session(
    callboard: Callboard, own_log: Path
) -> None:
    forked_log(own_log)
    content = ""
    for name in ("h", "g"):  # the second finds what the first has brought
        content = callboard("export", name, "--log", str(own_log)).stdout
        done = callboard("import", "-", "--log", "new.db", text=content)
        assert done.exit_code == 0, done.stderr
        assert callboard("export", name, "--log", "new.db").stdout == content
    assert set(listed(callboard, "new.db")) == {"g", "h"}
    assert callboard("import", "-", "--log", "new.db", text=content).exit_code == 1
    for name in ("h", "g"):
        assert callboard("delete", name, "--yes", "--log", "new.db").exit_code == 0
    connection = sqlite3.connect("new.db")
    for table in ("sessions", "events"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    connection.close()


def test_a_fork_of_another_session_of_that_id_is_refused_and_leaves_nothing(
    callboard: Callboard, own_log: Path
) -> None:
    forked_log(own_log)
    content = callboard("export", "h", "--log", str(own_log)).stdout
    rows = rows_of(own_log, "20250102-report")
    add_session(Path("new.db"), "20250101-survey", rows)
    done = callboard("import", "-", "--log", "new.db", text=content)
    assert done.exit_code == 1, done.stderr
    assert "has a session '20250101-survey' already" in done.stderr
    assert set(listed(callboard, "new.db")) == {"20250101-survey"}
    assert rows_of(Path("new.db"), "20250101-survey") == rows


def test_a_killed_import_of_a_fork_is_completed(callboard: Callboard, own_log: Path) -> None:
    forked_log(own_log)
    content = callboard("export", "h", "--log", str(own_log)).stdout
    add_session(Path("new.db"), "20250101-survey", rows_of(own_log, "20250101-survey")[:4])
    done = callboard("import", "-", "--log", "new.db", text=content)
    assert done.exit_code == 0, done.stderr
    assert callboard("export", "h", "--log", "new.db").stdout == content
    assert callboard("verify", "h", "--log", "new.db").exit_code in (0, 5)


def test_a_transcript_tells_what_it_is_and_is_imported_once(
    callboard: Callboard, tmp_path: Path, folder: Path
) -> None:
    main = Writer()
    main.user("Look.")
    main.said("Done.")
    write(tmp_path / "in" / "s1.jsonl", '{"type":"summary","summary":"x","leafUuid":"y"}', *main.lines)
    (tmp_path / "in" / "talk.json").write_text('[{"role":"user","content":"Hi."}]')
    log = str(tmp_path / "claude.db")
    done = callboard("import", str(tmp_path / "in"), "--log", log)
    assert (done.exit_code, done.stderr) == (0, "s1: 8 new events\n")
    assert callboard("import", str(tmp_path / "in" / "s1.jsonl"), "--log", log).stderr == "s1: 0 new events\n"
    assert callboard("verify", "s1", "--log", log).exit_code == 0
    shown = callboard("show", "s1", "--log", log).stdout
    assert "state     imported (claude-code): it cannot be resumed, but forked\n" in shown
    open_ended = Writer()
    open_ended.user("And?")
    write(tmp_path / "s2.jsonl", *open_ended.lines)
    assert callboard("import", str(tmp_path / "s2.jsonl"), "--log", log).exit_code == 0
    assert "outcome  none: its recording ends before\n" in callboard("show", "s2", "--log", log).stdout
    refused = callboard("resume", "s1", "survey:host", "--log", log)
    assert (refused.exit_code, "callboard fork s1 --with" in refused.stderr) == (2, True)
    assert callboard("import", str(tmp_path / "in" / "talk.json"), "--log", log).exit_code == 0


def test_a_file_that_does_not_tell_what_it_is_or_has_no_conversation_is_refused(
    callboard: Callboard, tmp_path: Path
) -> None:
    log = str(tmp_path / "new.db")
    odd = write(tmp_path / "odd.jsonl", "no json", '{"a":1}')
    done = callboard("import", str(odd), "--log", log)
    assert (done.exit_code, "say it with --from callboard|claude-code|messages|otlp" in done.stderr) == (
        2,
        True,
    )
    done = callboard("import", str(odd), "--from", "messages", "--log", log)
    assert (done.exit_code, "docs/import.md has the forms of --from messages" in done.stderr) == (2, True)
    done = callboard("import", str(odd), "--from", "claude-code", "--log", log)
    assert (done.exit_code, "no conversation in it" in done.stderr) == (1, True)
    assert callboard("import", str(odd), "--follow", "--from", "otlp", "--log", log).exit_code == 2
    assert callboard("import", str(tmp_path / "gone.jsonl"), "--log", log).exit_code == 3
