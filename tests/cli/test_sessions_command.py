"""`callboard sessions`: lists, choices, pages."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.messages import DelegationEnded
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


def test_a_number_bounds_the_list_and_stderr_says_that_there_are_more(callboard: Callboard) -> None:
    done = callboard("sessions", "-n", "1")
    assert len(done.stdout.splitlines()) == 2
    assert "there are more; -n 0 shows all" in done.stderr


def test_as_json_it_is_one_document_with_times_in_utc(callboard: Callboard) -> None:
    found = json.loads(callboard("sessions", "-n", "2", "--json").stdout)
    assert found["next"]
    assert [one["session"] for one in found["sessions"]] == ["20250103-failed", "20250102-report"]
    failed = found["sessions"][0]
    assert (failed["kind"], failed["outcome"], failed["status"]) == ("model_error", "failed", "closed")
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
    assert (by_name["20250105-open"]["kind"], by_name["20250105-open"]["status"]) == ("answered", "open")
    text = callboard("sessions", "--log", str(own_log)).stdout
    ended = {line.split()[0]: line.split()[4] for line in text.splitlines()[1:]}
    assert ended["20250104-cut"] == "unfinished"
    assert (ended["20250106-new"], ended["20250107-empty"]) == ("open", "open")


def test_a_delegation_that_failed_is_counted_and_one_that_was_denied_is_not(
    callboard: Callboard, own_log: Path
) -> None:
    events = rows_of(own_log, "20250101-survey")
    (denied,) = (one for one in events if isinstance(one.body, DelegationEnded) and one.body.kind == "denied")
    spent = replace(denied, body=replace(denied.body, kind="budget"))
    add_session(own_log, "20250105-spent", [spent if one is denied else one for one in events[:-2]])
    listed = callboard("sessions", "--log", str(own_log)).stdout.splitlines()
    ended = {line.split()[0]: line for line in listed}
    assert "answered, 1 failed below, open" in ended["20250105-spent"]
    assert "failed below" not in ended["20250101-survey"]


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """Record three closed sessions, with tags and metadata."""
    path = tmp_path / "tagged.db"

    async def record() -> None:
        async with Runtime(path, model=ScriptedModel(lambda _: say("hi"))) as runtime:
            for name, tags in (("a", ["user:1"]), ("b", ["user:2", "vip"]), ("c", ["user:1"])):
                await runtime.run(
                    Agent("host"), f"prompt {name}", session_id=name, tags=tags, metadata={"n": name}
                )

    asyncio.run(record())
    return path


def listed(callboard: Callboard, log: Path, *options: str) -> list[str]:
    found = json.loads(callboard("sessions", "--json", "--log", str(log), *options).stdout)
    return [one["session"] for one in found["sessions"]]


def test_sessions_are_chosen_by_status_tag_and_time(callboard: Callboard, tagged: Path) -> None:
    assert listed(callboard, tagged, "--tag", "user:1") == ["c", "a"]
    assert listed(callboard, tagged, "--tag", "vip", "--status", "closed") == ["b"]
    assert listed(callboard, tagged, "--status", "unfinished") == []
    assert listed(callboard, tagged, "--since", "1h") == ["c", "b", "a"]
    assert listed(callboard, tagged, "--since", "2200-01-01") == []
    empty = callboard("sessions", "--status", "open", "--log", str(tagged))
    assert (empty.exit_code, empty.stdout) == (0, "")
    assert "no session matches" in empty.stderr


def test_a_page_names_the_place_of_the_next_one(callboard: Callboard, tagged: Path) -> None:
    first = json.loads(callboard("sessions", "-n", "2", "--json", "--log", str(tagged)).stdout)
    assert [one["session"] for one in first["sessions"]] == ["c", "b"]
    options = ("-n", "2", "--json", "--after", first["next"], "--log", str(tagged))
    rest = json.loads(callboard("sessions", *options).stdout)
    assert [one["session"] for one in rest["sessions"]] == ["a"]
    assert rest["next"] is None


def test_tags_are_shown_in_lists_and_by_show_with_the_metadata(callboard: Callboard, tagged: Path) -> None:
    text = callboard("sessions", "--log", str(tagged)).stdout
    assert "[user:2] [vip] prompt b" in text
    (one,) = json.loads(callboard("sessions", "--tag", "vip", "--json", "--log", str(tagged)).stdout)[
        "sessions"
    ]
    assert (one["tags"], one["metadata"], one["host"]) == (["user:2", "vip"], {"n": "b"}, "host")
    shown = callboard("show", "b", "--log", str(tagged)).stdout
    assert "user:2, vip" in shown
    assert '{"n":"b"}' in shown
    as_json = json.loads(callboard("show", "b", "--json", "--log", str(tagged)).stdout)
    assert (as_json["tags"], as_json["metadata"]) == (["user:2", "vip"], {"n": "b"})


@pytest.mark.parametrize(
    "wrong", [["--since", "soon"], ["--since", "5x"], ["--after", "x"], ["--status", "done"]]
)
def test_a_wrong_option_is_refused_with_the_right_form(callboard: Callboard, wrong: list[str]) -> None:
    done = callboard("sessions", *wrong)
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr
