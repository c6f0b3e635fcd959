import json
from pathlib import Path

from callboard.cli.folding import Folding
from callboard.cli.state_view import change_lines, heading
from callboard.replay.states import Change
from tests.cli.conftest import Callboard
from tests.cli.recorded import damage


def test_all_actors_are_summed_up(callboard: Callboard) -> None:
    lines = callboard("show", "20250101", "--state", "--at", "14").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ACTOR", "supervisor", "host", "host.1"]
    assert "asking, 2 agents live" in lines[1]
    assert "acting, turn 1, 2 messages, 1 call unanswered" in lines[2]
    assert "acting" in lines[3]


def test_one_actor_comes_with_its_conversation(callboard: Callboard) -> None:
    text = callboard("show", "20250101", "--state", "--at", "14", "--actor", "host.1").stdout
    assert "counter" in text
    assert '"Count the files in src"' in text
    supervisor = callboard("show", "20250101", "--state", "--at", "14", "--actor", "supervisor").stdout
    assert "2 live, 2 ever" in supervisor


def test_without_an_event_it_is_the_last(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101", "--state", "--actor", "host", "--json").stdout)
    assert found["at"] == 28
    assert found["state"]["phase"] == "idle"
    assert found["state"]["history"][0]["role"] == "user"


def test_all_states_as_json(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101", "--state", "--at", "9", "--json").stdout)
    assert set(found["actors"]) == {"supervisor", "host", "host.1"}


def test_an_unknown_event_or_actor_is_answered_with_those_there_are(callboard: Callboard) -> None:
    event = callboard("show", "20250101", "--state", "--at", "99")
    assert event.exit_code == 3
    assert "1 to 28" in event.stderr
    actor = callboard("show", "20250101", "--state", "--at", "9", "--actor", "host.7")
    assert actor.exit_code == 3
    assert "host, host.1, supervisor" in actor.stderr


def test_an_answer_says_whether_its_digests_were_checked(callboard: Callboard) -> None:
    one = callboard("show", "20250101", "--state", "--at", "9", "--actor", "host")
    assert "chain not checked" in one.stderr
    request = callboard("request", "20250101", "5")
    assert "chain not checked" in request.stderr
    for arguments, is_checked in (
        (("--at", "9"), True),
        (("--at", "9", "--actor", "host"), False),
        (("--at", "9", "--actor", "host", "--check"), True),
    ):
        done = callboard("show", "20250101", "--state", *arguments, "--json")
        assert json.loads(done.stdout)["checked"] is is_checked, arguments
    assert "not checked" not in callboard("show", "20250101", "--state", "--actor", "host", "--check").stderr
    assert "not checked" not in callboard("request", "20250101", "5", "--check").stderr


def test_damage_behind_the_event_is_found_where_it_is_looked_for(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 20)
    log = ("--log", str(own_log))
    for arguments in (
        ("show", "--state", "--at", "9"),
        ("show", "--state", "--at", "9", "--actor", "host"),
        ("events", "--step", "--from", "9", "--to", "9"),
    ):
        assert callboard(arguments[0], "20250101", *arguments[1:], *log).exit_code == 0, arguments
        done = callboard(arguments[0], "20250101", *arguments[1:], "--check", *log)
        assert (done.exit_code, done.stdout) == (4, ""), arguments
    assert callboard("request", "20250101", "5", *log).exit_code == 0
    assert callboard("request", "20250101", "5", "--check", *log).exit_code == 4
    assert callboard("show", "20250101", "--state", *log).exit_code == 4


def test_an_event_is_named_with_its_session(callboard: Callboard) -> None:
    at = callboard("show", "20250101", "--state", "--at", "14").stdout
    assert callboard("show", "20250101#14", "--state").stdout == at
    assert callboard("show", "20250101#14", "--state", "--at", "14").stdout == at
    assert callboard("show", "20250101#14", "--state", "--at", "15").exit_code == 2


def test_what_an_event_changed_is_shown_before_and_after(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101#13", "--changes", "--json").stdout)
    assert (found["decided"], found["actor"]) == (13, "host.1")
    change = next(one for one in found["changes"] if one["path"] == "phase")
    assert (change["before"], change["after"]) == ("thinking", "acting")
    text = callboard("show", "20250101#13", "--changes").stdout
    assert "the decision of host.1 on event 13 changed:" in text
    assert '    - "thinking"\n    + "acting"' in text
    assert callboard("show", "20250101#13", "--changes", "--actor", "host").exit_code == 2


def test_an_event_to_a_port_shows_the_decision_that_posted_it(callboard: Callboard) -> None:
    listed = callboard("events", "20250101", "--json").stdout.splitlines()
    for row in map(json.loads, listed):
        if row["recipient"] in ("tools", "client", "model"):
            found = json.loads(callboard("show", f"20250101#{row['seq']}", "--changes", "--json").stdout)
            assert (found["decided"], found["actor"]) == (row["cause"], row["sender"])
            of_cause = callboard("show", f"20250101#{row['cause']}", "--changes", "--json").stdout
            assert found["changes"] == json.loads(of_cause)["changes"]


ATTACK = "\x1b[2J"


def test_a_change_has_the_field_and_both_values() -> None:
    lines = change_lines([Change("phase", "thinking", None)], Folding(is_full=False))
    assert [line.plain for line in lines] == ["  phase", '    - "thinking"', "    + null"]


def test_hostile_values_are_safe() -> None:
    for is_full in (False, True):
        lines = change_lines([Change(f"a{ATTACK}", ATTACK, {ATTACK: 1})], Folding(is_full=is_full))
        assert not any("\x1b" in line.plain for line in lines)


def test_many_changes_and_long_values_are_folded() -> None:
    many = [Change(str(number), "", "x" * 1_000) for number in range(50)]
    lines = change_lines(many, Folding(is_full=False))
    assert lines[-1].plain == "  … 10 more fields; --full shows them"
    assert max(len(line.plain) for line in lines) < 320
    assert len(change_lines(many, Folding(is_full=True))) == 150


def test_the_heading_names_the_decision() -> None:
    assert heading(12, "host.1", has_changes=True) == "the decision of host.1 on event 12 changed:"
    assert heading(12, "host.1", has_changes=False).endswith("changed nothing")
    assert heading(0, "", has_changes=False) == "no actor decides on this event"
