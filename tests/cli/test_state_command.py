import json
from pathlib import Path

from tests.cli.conftest import Callboard
from tests.cli.recorded import damage


def test_all_actors_are_summed_up(callboard: Callboard) -> None:
    lines = callboard("state", "20250101", "--at", "14").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ACTOR", "supervisor", "host", "host.1"]
    assert "asking, 2 agents live" in lines[1]
    assert "acting, turn 1, 2 messages, 1 call unanswered" in lines[2]
    assert "acting" in lines[3]


def test_one_actor_comes_with_its_conversation(callboard: Callboard) -> None:
    text = callboard("state", "20250101", "--at", "14", "--actor", "host.1").stdout
    assert "counter" in text
    assert '"Count the files in src"' in text
    supervisor = callboard("state", "20250101", "--at", "14", "--actor", "supervisor").stdout
    assert "2 live, 2 ever" in supervisor


def test_without_an_event_it_is_the_last(callboard: Callboard) -> None:
    found = json.loads(callboard("state", "20250101", "--actor", "host", "--json").stdout)
    assert found["at"] == 28
    assert found["state"]["phase"] == "idle"
    assert found["state"]["history"][0]["role"] == "user"


def test_all_states_as_json(callboard: Callboard) -> None:
    found = json.loads(callboard("state", "20250101", "--at", "9", "--json").stdout)
    assert set(found["actors"]) == {"supervisor", "host", "host.1"}


def test_an_unknown_event_or_actor_is_answered_with_those_there_are(callboard: Callboard) -> None:
    event = callboard("state", "20250101", "--at", "99")
    assert event.exit_code == 3
    assert "1 to 28" in event.stderr
    actor = callboard("state", "20250101", "--at", "9", "--actor", "host.7")
    assert actor.exit_code == 3
    assert "host, host.1, supervisor" in actor.stderr


def test_an_answer_says_whether_its_digests_were_checked(callboard: Callboard) -> None:
    one = callboard("state", "20250101", "--at", "9", "--actor", "host")
    assert "chain not checked" in one.stderr
    request = callboard("request", "20250101", "5")
    assert "chain not checked" in request.stderr
    for arguments, is_checked in (
        (("--at", "9"), True),
        (("--at", "9", "--actor", "host"), False),
        (("--at", "9", "--actor", "host", "--check"), True),
    ):
        done = callboard("state", "20250101", *arguments, "--json")
        assert json.loads(done.stdout)["checked"] is is_checked, arguments
    assert "not checked" not in callboard("state", "20250101", "--actor", "host", "--check").stderr
    assert "not checked" not in callboard("request", "20250101", "5", "--check").stderr


def test_damage_behind_the_event_is_found_where_it_is_looked_for(callboard: Callboard, own_log: Path) -> None:
    damage(own_log, 20)
    log = ("--log", str(own_log))
    for arguments in (
        ("state", "--at", "9"),
        ("state", "--at", "9", "--actor", "host"),
        ("replay", "--at", "9"),
    ):
        assert callboard(arguments[0], "20250101", *arguments[1:], *log).exit_code == 0, arguments
        done = callboard(arguments[0], "20250101", *arguments[1:], "--check", *log)
        assert (done.exit_code, done.stdout) == (4, ""), arguments
    assert callboard("request", "20250101", "5", *log).exit_code == 0
    assert callboard("request", "20250101", "5", "--check", *log).exit_code == 4
    assert callboard("state", "20250101", *log).exit_code == 4


def test_an_event_is_named_with_its_session(callboard: Callboard) -> None:
    at = callboard("state", "20250101", "--at", "14").stdout
    assert callboard("state", "20250101#14").stdout == at
    assert callboard("state", "20250101#14", "--at", "14").stdout == at
    assert callboard("state", "20250101#14", "--at", "15").exit_code == 2


def test_what_an_event_changed_is_shown_before_and_after(callboard: Callboard) -> None:
    found = json.loads(callboard("state", "20250101#13", "--changes", "--json").stdout)
    assert (found["decided"], found["actor"]) == (13, "host.1")
    change = next(one for one in found["changes"] if one["path"] == "phase")
    assert (change["before"], change["after"]) == ("thinking", "acting")
    text = callboard("state", "20250101#13", "--changes").stdout
    assert "the decision of host.1 on event 13 changed:" in text
    assert '    - "thinking"\n    + "acting"' in text
    assert callboard("state", "20250101#13", "--changes", "--actor", "host").exit_code == 2


def test_an_event_to_a_port_shows_the_decision_that_posted_it(callboard: Callboard) -> None:
    listed = callboard("events", "20250101", "--json").stdout.splitlines()
    for row in map(json.loads, listed):
        if row["recipient"] in ("tools", "client", "model"):
            found = json.loads(callboard("state", f"20250101#{row['seq']}", "--changes", "--json").stdout)
            assert (found["decided"], found["actor"]) == (row["cause"], row["sender"])
            of_cause = callboard("state", f"20250101#{row['cause']}", "--changes", "--json").stdout
            assert found["changes"] == json.loads(of_cause)["changes"]
