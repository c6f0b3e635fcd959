"""The names of places: every view prints them, and every command takes those that are printed."""

import json

import pytest

from callboard.cli.recordings import split_place
from tests.cli.conftest import Callboard

_PRINTED_BY = (
    ("events", "20250101"),
    ("events", "20250101", "--grouped"),
    ("events", "20250101", "--json"),
    ("events", "20250101", "--grouped", "--json"),
    ("why", "20250101#host.1:1:0"),
    ("why", "20250101#18", "--json"),
    ("why", "20250101#26", "--value", "3 files"),
    ("search", "20250101", "3 files"),
    ("events", "20250101", "--step"),
    ("events", "20250101", "--step", "--json"),
    ("diff", "20250101", "20250102"),
)


@pytest.mark.parametrize("command", _PRINTED_BY)
def test_every_view_of_calls_prints_their_places(callboard: Callboard, command: tuple[str, ...]) -> None:
    assert "host.1:1:0" in callboard(*command).stdout, command


def test_a_request_names_its_reply_and_a_failure_its_call(callboard: Callboard) -> None:
    assert "host.1:2" in callboard("request", "20250101#host.1:2").stdout
    assert "event 10, host:1:1 to host.2: denied" in callboard("show", "20250101").stdout


def _seq(callboard: Callboard, place: str, kind: str) -> int:
    lines = callboard("events", "20250101", "--json", "--kind", kind).stdout.splitlines()
    (seq,) = [found["seq"] for found in map(json.loads, lines) if found["place"] == place]
    return int(seq)


_TAKEN_BY = (
    *("show", "show --budget", "show --state", "show --tools", "tree", "verify", "check", "export"),
    *("diagnose", "events", "events --step", "why", "request"),
)
_ANSWERS = (("host.1:1:0", "ToolReturned"), ("host:1:0", "DelegationEnded"), ("host:2", "ModelReplied"))


@pytest.mark.parametrize("command", _TAKEN_BY)
def test_every_command_takes_the_name_of_a_call_for_its_answer(callboard: Callboard, command: str) -> None:
    for place, kind in _ANSWERS:
        seq = _seq(callboard, place, kind)
        named = callboard(*command.split(), f"20250101#{place}")
        assert named.exit_code == 0, named.stderr
        assert named.stdout == callboard(*command.split(), f"20250101#{seq}").stdout
    gone = callboard(*command.split(), "20250101#host.1:9:0")
    assert gone.exit_code == 3
    assert "has no host.1:9:0; there are: host.1:1, host.1:1:0, host.1:2, host:1" in gone.stderr
    gone = callboard(*command.split(), "20250101@loaded")
    assert gone.exit_code == 3
    assert "has no checkpoint 'loaded'" in gone.stderr


def test_other_commands_take_it_too(callboard: Callboard) -> None:
    place = "20250101#host.1:1:0"
    assert callboard("diff", place, place).exit_code == 0
    assert callboard("search", place, "3 files").exit_code == 0
    assert callboard("check-program", place, "--with", "missing:host").exit_code == 3
    assert callboard("why", "20250101", "host.1:1:0").stdout == callboard("why", place).stdout


def test_a_call_alone_is_one_of_the_newest_session(callboard: Callboard) -> None:
    found = callboard("why", "host:1", "--json")
    assert json.loads(found.stdout)["session"] == "20250103-failed"
    assert callboard("why", "#host:1", "--json").stdout == found.stdout
    assert callboard("why", "host:9").exit_code == 3


def test_an_id_may_hold_the_marks_of_places() -> None:
    known = {"a#1", "b@c", "plain"}
    assert split_place("a#1", known) == ("a#1", "")
    assert split_place("a#1#7", known) == ("a#1", "7")
    assert split_place("b@c#host:1:0", known) == ("b@c", "host:1:0")
    assert split_place("plain@loaded", known) == ("plain", "@loaded")
    assert split_place("plain", known) == ("plain", "")
