import json

from tests.cli.conftest import Callboard


def test_all_actors_are_summed_up(callboard: Callboard) -> None:
    lines = callboard("state", "20250101", "--at", "14").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ACTOR", "supervisor", "host", "host.1"]
    assert "asking, 2 agents live" in lines[1]
    assert "acting, turn 1, 2 messages, 1 call unanswered" in lines[2]
    assert "acting" in lines[3]


def test_one_actor_is_shown_with_its_conversation(callboard: Callboard) -> None:
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


def test_a_request_is_shown_as_it_was(callboard: Callboard) -> None:
    text = callboard("request", "20250101", "23").stdout
    for words in (
        "host (host), turn 2",
        "scripted, at most 1,024 tokens",
        "count_files, task",
        "1 user",
        "3 files",
    ):
        assert words in text
    body = json.loads(callboard("request", "20250101", "23", "--json").stdout)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [tool["name"] for tool in body["tools"]] == ["count_files", "task"]


def test_the_reply_names_the_request_as_well(callboard: Callboard) -> None:
    assert callboard("request", "20250101", "24", "--json").stdout == (
        callboard("request", "20250101", "23", "--json").stdout
    )


def test_a_number_alone_is_of_the_newest_session(callboard: Callboard) -> None:
    assert (
        json.loads(callboard("request", "5", "--json").stdout)["messages"][0]["content"] == "Go on for ever."
    )


def test_an_event_without_a_request_is_answered_with_those_that_have_one(callboard: Callboard) -> None:
    done = callboard("request", "20250101", "7")
    assert done.exit_code == 3
    assert "Delegate" in done.stderr
    assert "5, 12, 18, 23" in done.stderr
    assert callboard("request", "20250101", "99").exit_code == 3
    assert callboard("request", "first").exit_code == 2
    assert callboard("request").exit_code == 2
