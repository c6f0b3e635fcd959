import asyncio
import json
import shutil
import sqlite3
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import StoreIncomplete
from callboard.actors.protocol.immutable import Json
from callboard.cli import output
from callboard.replay.testing.stores.events import added, events, large
from callboard.runtime.log import hash_chain
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, damage
from tests.pages import ROOT, blocks
from tests.replay.exports.kit import events_of

KEY = b"k" * 32


def test_events_go_to_stdout_one_a_line_behind_a_header(callboard: Callboard) -> None:
    done = callboard("export", "20250101")
    assert (done.exit_code, done.stderr) == (0, "")
    header, *lines = map(json.loads, done.stdout.splitlines())
    assert (header["session"], header["events"]) == ("20250101-survey", 28)
    assert [line["seq"] for line in lines if "kind" in line] == list(range(1, 29))
    listed = callboard("events", "20250101", "--json").stdout.splitlines()
    digests = [json.loads(line)["digest"] for line in listed]
    assert [line["digest"] for line in lines if "kind" in line] == digests


def test_parsed_bodies_are_objects_and_the_export_says_that_digests_are_lost(
    callboard: Callboard,
) -> None:
    done = callboard("export", "20250101", "--parsed")
    header, *lines = map(json.loads, done.stdout.splitlines())
    assert "digests cannot be computed" in header["bodies"]
    assert "digests cannot be computed" in done.stderr
    listed = map(json.loads, callboard("events", "20250101", "--json").stdout.splitlines())
    assert [line["body"] for line in lines] == [line["body"] for line in listed]
    assert callboard("export", "--format", "json", "--parsed").exit_code == 2


def test_a_session_as_one_document_has_its_head_and_its_events(callboard: Callboard, tmp_path: Path) -> None:
    done = callboard("export", "20250101", "--format", "json", "-o", "s.json")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "1 session, 28 events written to s.json" in done.stderr
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["session"] == "20250101-survey"
    assert found["head"] == json.loads(callboard("show", "20250101", "--json").stdout)["head"]
    assert [one["seq"] for one in found["events"]] == list(range(1, 29))
    assert found["title"].startswith("How many")


def test_all_sessions_go_into_one_document_or_one_line_each_event(callboard: Callboard) -> None:
    document = json.loads(callboard("export", "--all", "--format", "json").stdout)
    assert len(document["sessions"]) == 3
    lines = [json.loads(line) for line in callboard("export", "--all").stdout.splitlines()]
    events = [line for line in lines if "kind" in line]
    assert len(events) == sum(len(one["events"]) for one in document["sessions"])
    headers = [line["session"] for line in lines if "session" in line]
    assert headers == [one["session"] for one in document["sessions"]]


@pytest.mark.parametrize("which", [["--all"], ["20250101"]], ids=["all sessions", "one session"])
def test_a_database_is_a_log_again_that_verifies(
    callboard: Callboard, recorded: Path, tmp_path: Path, which: list[str]
) -> None:
    done = callboard("export", *which, "--format", "db", "-o", "copy.db")
    assert done.exit_code == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["copy.db"]
    assert callboard("verify", "--all", "--log", "copy.db").exit_code == 0
    with SQLiteReader(recorded) as origin, SQLiteReader("copy.db") as copy:
        assert len(copy.sessions()) == (3 if which == ["--all"] else 1)
        for row in copy.sessions():
            assert row in origin.sessions()
            assert copy.events(row.session_id) == origin.events(row.session_id)
            assert copy.head(row.session_id) == origin.head(row.session_id)


def test_a_copy_can_be_written_on(callboard: Callboard, tmp_path: Path) -> None:
    callboard("export", "20250101", "--format", "db", "-o", "copy.db")

    async def write() -> None:
        log = SQLiteLog(tmp_path / "copy.db", "process")
        await log.open()
        epoch, head = await log.take_over("20250101-survey")
        more = events(head.seq + 1, head.seq + 3)
        (answer,) = await log.append([Append("20250101-survey", head.seq, epoch, more)])
        assert isinstance(answer, Head)
        await log.close()

    asyncio.run(write())
    with SQLiteReader(tmp_path / "copy.db") as reader:
        assert reader.verify_chain("20250101-survey").seq == 31


# --- a live log ---------------------------------------------------------------------


def beside_an_owner(path: Path, callboard: Callboard, *arguments: str, key: bytes | None = None) -> None:
    """Export while the log is open and its newest events are in the WAL only."""

    async def work() -> None:
        log = SQLiteLog(path, encryption_key=key)
        await log.open()
        for name in ("s", "t"):
            await log.create(name, 1, "a title")
            await added(log, name, 1, [*events(1, 20), large(21), large(22, 4_000, "y")])
        done = await asyncio.to_thread(callboard, *arguments, "--log", str(path))
        assert done.exit_code == 0, done.stderr
        await added(log, "s", 1, events(23, 24))
        await log.close()

    asyncio.run(work())


def test_a_live_log_is_copied_whole(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    beside_an_owner(path, callboard, "export", "--all", "--format", "db", "-o", "copy.db")
    with SQLiteReader("copy.db") as copy, SQLiteReader(path) as origin:
        assert copy.verify_chain("s").seq == 22
        assert origin.verify_chain("s", head=copy.head("s")).seq == 24


def test_one_session_of_a_live_log_takes_its_large_values_along(callboard: Callboard, tmp_path: Path) -> None:
    beside_an_owner(tmp_path / "live.db", callboard, "export", "t", "--format", "db", "-o", "copy.db")
    with SQLiteReader("copy.db") as copy:
        assert [row.session_id for row in copy.sessions()] == ["t"]
        assert copy.verify_chain("t").seq == 22
    connection = sqlite3.connect("copy.db")
    assert connection.execute("SELECT count(*) FROM blobs").fetchone() == (2,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_copy_by_other_means_lacks_events_and_is_refused(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "live.db"

    async def work() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create("s", 1, "")
        await added(log, "s", 1, events(1, 20))
        shutil.copy(path, tmp_path / "copied.db")
        await log.close()

    asyncio.run(work())
    with pytest.raises(StoreIncomplete):
        SQLiteReader(tmp_path / "copied.db")
    for command in ("sessions", "show", "verify", "export"):
        done = callboard(command, "--log", "copied.db")
        assert done.exit_code == 4
        assert "copied.db-wal" in done.stderr
        assert "callboard export" in done.stderr


def test_an_encrypted_log_stays_encrypted_in_a_copy_and_is_readable_as_text(
    callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_bytes(KEY + b"\n")
    path = tmp_path / "live.db"
    key = ("--encryption-key-file", "key")
    beside_an_owner(path, callboard, "export", "s", "--format", "db", "-o", "copy.db", *key, key=KEY)
    assert b"reason 7" not in Path("copy.db").read_bytes()
    assert callboard("export", "--log", "copy.db").exit_code == 2
    assert "reason 7" in callboard("export", "--log", "copy.db", *key).stdout
    monkeypatch.setenv("CALLBOARD_ENCRYPTION_KEY_FILE", "key")
    for command in ("export", "events", "show", "sessions"):
        assert callboard(command, "--log", "copy.db").exit_code == 0, command


# --- refusals -----------------------------------------------------------------------


def test_an_existing_file_is_written_over_only_with_force(callboard: Callboard, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    for form in ("jsonl", "json", "db"):
        done = callboard("export", "20250101", "--format", form, "-o", "out")
        assert done.exit_code == 2
        assert "--force" in done.stderr
    assert (tmp_path / "out").read_text() == "precious"
    assert callboard("export", "20250101", "-o", "out", "--force").exit_code == 0
    assert (tmp_path / "out").read_text().splitlines()[-1].startswith('{"seq":28,')


def test_neither_the_log_itself_nor_an_open_one_is_ever_written_over(
    callboard: Callboard, own_log: Path, tmp_path: Path
) -> None:
    before = own_log.read_bytes()
    done = callboard("export", "--log", str(own_log), "--format", "db", "-o", str(own_log), "--force")
    assert (done.exit_code, own_log.read_bytes()) == (2, before)
    (tmp_path / "other.db-wal").write_bytes(b"x")
    done = callboard("export", "--format", "db", "-o", "other.db", "--force")
    assert done.exit_code == 2
    assert "was not closed" in done.stderr


def test_impossible_arguments_are_refused_before_anything_is_written(
    callboard: Callboard, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for arguments, code, said in (
        (("--format", "db"), 2, "-o FILE"),
        (("--all", "20250101"), 2, "leave SESSION out"),
        (("-o", "folder"), 2, "is a folder"),
        (("-o", "nowhere/out"), 3, "make it first"),
        (("nobody",), 3, "no session"),
        (("--encryption-key-file", "nowhere"), 3, "cannot be read"),
    ):
        done = callboard("export", *arguments)
        assert done.exit_code == code, arguments
        assert said in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("form", ["jsonl", "json", "db"])
def test_a_damaged_session_is_not_exported(callboard: Callboard, own_log: Path, form: str) -> None:
    damage(own_log, 7)
    done = callboard("export", "20250101", "--format", form, "-o", "out", "--log", str(own_log))
    assert done.exit_code == 4
    assert not Path("out").exists()
    assert not Path("out.part").exists()


def test_a_damaged_log_can_be_backed_up_as_it_is(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 7)
    assert callboard("export", "--all", "--format", "db", "-o", "b.db", "--log", str(own_log)).exit_code == 0
    assert callboard("verify", "--all", "--log", "b.db").exit_code == 4


def test_a_disk_that_cannot_be_written_leaves_nothing_behind(
    callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    done = callboard("export", "20250101", "-o", "out")
    assert done.exit_code == 2
    assert "No space left" in done.stderr
    assert not list(tmp_path.iterdir())


def test_long_exports_show_their_progress_on_a_terminal(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "%" not in callboard("export", "20250101", "-o", "quiet").stderr
    monkeypatch.setattr(output, "is_terminal", lambda stream: True)
    assert "%" not in callboard("export", "20250101", "-o", "short").stderr
    monkeypatch.setattr(output, "_PERCENT_FROM", 10)
    monkeypatch.setattr(hash_chain, "PAGE_EVENTS", 10)
    done = callboard("export", "20250101", "-o", "long")
    assert "35 %\r" in done.stderr
    assert "100 %\n" in done.stderr


def test_the_page_about_the_log_computes_the_digests_of_an_export(
    callboard: Callboard, own_log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    value = Json(msgspec.json.encode(["ä" * 2_000]))
    add_session(own_log, "large", events_of([Ask("1", value, value), Ask("2", value)]))
    callboard("export", "large", "--log", str(own_log), "-o", "session.jsonl")
    lines = (tmp_path / "session.jsonl").read_text().splitlines()
    kinds = [next(iter(json.loads(line))) for line in lines]
    assert kinds == ["callboard", "blob", "seq", "seq", "seq", "seq"]
    (program,) = (one.text for one in blocks((ROOT / "docs/log.md").read_text()) if one.language == "python")
    exec(program, {})
    assert capsys.readouterr().out == f"large ends with {json.loads(lines[-1])['digest']}\n"
    (tmp_path / "session.jsonl").write_text("\n".join(lines).replace('"sender":"', '"sender":"x', 1))
    with pytest.raises(AssertionError):
        exec(program, {})


def test_a_test_is_written_with_its_recording_beside_it(callboard: Callboard, tmp_path: Path) -> None:
    made = ("export", "20250101", "--format", "pytest", "-o", "test_survey.py")
    done = callboard(*made, "--with", "survey:host")
    assert done.exit_code == 0
    assert "recording('test_survey.jsonl', agent='survey:host')" in (tmp_path / "test_survey.py").read_text()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["test_survey.jsonl", "test_survey.py"]
    (tmp_path / "test_survey.py").unlink()
    again = callboard(*made)
    assert again.exit_code == 2
    assert "test_survey.jsonl exists already; --force writes over it" in again.stderr
    assert callboard(*made, "--force").exit_code == 0


def test_a_scenario_is_written_that_explore_takes(callboard: Callboard, tmp_path: Path) -> None:
    assert callboard("export", "20250101", "--format", "scenario", "-o", "survey_again.py").exit_code == 0
    done = callboard("explore", "survey_again.py:scenario", "--runs", "5", "--json")
    assert done.exit_code == 0, done.output
    assert "scenario = RecordedScenario(" in callboard("export", "20250101", "--format", "scenario").stdout


def test_python_files_are_refused_where_they_cannot_be_written(callboard: Callboard) -> None:
    assert "name a file with -o" in callboard("export", "--format", "pytest").stderr
    named = callboard("export", "20250101", "--format", "pytest", "-o", "survey.py")
    assert (named.exit_code, "files named test_*.py" in named.stderr) == (2, True)
    with_agent = callboard("export", "--format", "scenario", "--with", "a:b", "-o", "x.py")
    assert (with_agent.exit_code, "--with is for pytest" in with_agent.stderr) == (2, True)
    several = callboard("export", "--all", "--format", "scenario", "-o", "x.py")
    assert (several.exit_code, "holds one session" in several.stderr) == (2, True)


def test_spans_are_written_for_one_session_or_for_all(callboard: Callboard) -> None:
    def spans(*arguments: str) -> list[dict[str, object]]:
        done = callboard("export", *arguments, "--format", "otlp")
        assert done.exit_code == 0
        found: list[dict[str, object]] = json.loads(done.stdout)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        return found

    one, every = spans("20250101"), spans("--all")
    assert len({str(span["traceId"]) for span in one}) == 1
    assert {str(span["spanId"]) for span in one} < {str(span["spanId"]) for span in every}
    assert "gen_ai.input.messages" not in str(every)
    assert "gen_ai.input.messages" in str(spans("20250101", "--content"))


def test_a_session_up_to_an_event_has_unfinished_spans_and_content_is_for_spans(callboard: Callboard) -> None:
    done = callboard("export", "20250101#6", "--format", "otlp")
    assert "callboard.unfinished" in done.stdout
    refused = callboard("export", "20250101", "--content")
    assert (refused.exit_code, "--content is for otlp" in refused.stderr) == (2, True)
