import asyncio
import json
from pathlib import Path

from callboard import Agent, Runtime, ScriptedModel
from callboard.replay.recording import Recording
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


def test_a_request_is_printed_as_it_was(callboard: Callboard) -> None:
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


def test_a_request_names_the_makers_of_messages_of_other_models(callboard: Callboard, tmp_path: Path) -> None:
    path = str(tmp_path / "several.db")
    first, second = (ScriptedModel(lambda request: "Well.", name=name) for name in ("first", "second"))

    async def main() -> None:
        async with Runtime(path, model=first) as runtime:
            session = await runtime.open(Agent("host"), session_id="talk")
            await session.ask("Count.")
        async with Runtime(path, model=second) as runtime:
            session = await runtime.resume("talk", Agent("host"), accept_changes=True)
            await session.ask("Go on.")
            await session.ask("And on.")

    asyncio.run(main())
    events = Recording.open(path, "talk").events
    seqs = [str(event.seq) for event in events if event.kind == "CallModel"]
    shown = [callboard("request", "talk", seq, "--log", path).stdout for seq in seqs]
    assert ["made by" in text for text in shown] == [False, True, True]
    assert "\n2 assistant, made by first\n" in shown[2]
    assert "\n4 assistant\n" in shown[2]
    body = json.loads(callboard("request", "talk", seqs[2], "--log", path, "--json").stdout)
    origins = [{"from": 0, "origin": {"model": "first"}}, {"from": 3, "origin": {"model": "second"}}]
    assert body["origins"] == origins


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


def test_a_turn_request_names_its_request_as_well(callboard: Callboard) -> None:
    listed = callboard("events", "20250101", "--kind", "TurnRequested", "--json").stdout.splitlines()
    turns = [json.loads(line)["seq"] for line in listed]
    assert len(turns) == 4
    by_turn = {callboard("request", "20250101", str(seq), "--json").stdout for seq in turns}
    by_grant = {callboard("request", "20250101", seq, "--json").stdout for seq in ("5", "12", "18", "23")}
    assert by_turn == by_grant


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
