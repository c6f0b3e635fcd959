import asyncio
import json
from pathlib import Path

from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, rows_of


def test_sessions_are_listed_newest_first_with_how_they_ended(callboard: Callboard) -> None:
    done = callboard("sessions")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SESSION", "STARTED", "EVENTS", "ENDED", "PROMPT"]
    assert [line.split()[0] for line in lines[1:]] == [
        "20250103-failed",
        "20250102-report",
        "20250101-survey",
    ]
    assert "model_error" in lines[1]
    assert "reported" in lines[2]
    assert "answered" in lines[3]
    assert lines[3].endswith("How many files are there?")


def test_a_number_bounds_the_list_and_the_rest_is_counted_on_stderr(callboard: Callboard) -> None:
    done = callboard("sessions", "-n", "1")
    assert len(done.stdout.splitlines()) == 2
    assert "2 more; -n 0 shows all" in done.stderr


def test_as_json_it_is_one_document_with_times_in_utc(callboard: Callboard) -> None:
    found = json.loads(callboard("sessions", "-n", "2", "--json").stdout)
    assert found["total"] == 3
    assert [one["session"] for one in found["sessions"]] == ["20250103-failed", "20250102-report"]
    failed = found["sessions"][0]
    assert (failed["kind"], failed["status"], failed["is_closed"]) == ("model_error", "failed", True)
    assert failed["started"].endswith("Z")


def test_a_session_without_an_outcome_is_unfinished_and_one_without_an_end_open(
    callboard: Callboard, own_log: Path
) -> None:
    events = rows_of(own_log, "20250101-survey")
    add_session(own_log, "20250104-cut", events[:12])
    add_session(own_log, "20250105-open", events[:-2])
    add_session(own_log, "20250106-new", events[:1])
    add_session(own_log, "20250107-empty", [])
    found = json.loads(callboard("sessions", "--json", "--log", str(own_log)).stdout)["sessions"]
    by_name = {one["session"]: one for one in found}
    assert by_name["20250104-cut"]["kind"] is None
    assert (by_name["20250105-open"]["kind"], by_name["20250105-open"]["is_closed"]) == ("answered", False)
    text = callboard("sessions", "--log", str(own_log)).stdout
    ended = {line.split()[0]: line.split()[4] for line in text.splitlines()[1:]}
    assert ended["20250104-cut"] == "unfinished"
    assert "answered, open" in text
    assert (ended["20250106-new"], ended["20250107-empty"]) == ("open", "open")


def test_a_log_without_sessions_says_what_to_do(callboard: Callboard, tmp_path: Path) -> None:
    async def make() -> None:
        log = SQLiteLog(tmp_path / "new.db", durability="process")
        await log.open()
        await log.close()

    asyncio.run(make())
    done = callboard("sessions", "--log", str(tmp_path / "new.db"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "callboard run" in done.stderr
    assert callboard("show", "--log", str(tmp_path / "new.db")).exit_code == 3
    assert callboard("verify", "--all", "--log", str(tmp_path / "new.db")).exit_code == 0


def test_a_session_without_events_can_be_looked_at(callboard: Callboard, tmp_path: Path) -> None:
    log = str(tmp_path / "new.db")
    add_session(tmp_path / "new.db", "one", [])
    for command in ("sessions", "show", "tree", "events", "verify", "replay"):
        for form in ([], ["--json"]):
            assert callboard(command, *form, "--log", log).exit_code == 0, command
