import asyncio
import json
from pathlib import Path

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import Step, call
from callboard.runtime.tools.tool import tool
from tests.cli.conftest import Callboard
from tests.replay.diagnosis.user_stories import clerk


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


def test_a_step_of_a_program_names_no_model(callboard: Callboard, tmp_path: Path) -> None:
    path = str(tmp_path / "program.db")
    Runtime(path, model=ScriptedModel({})).run_sync(clerk, "What do they cost?", session_id="one")
    shown = callboard("request", "one#host:1", "--log", path).stdout
    assert "none: this is a step of a program" in shown
    assert "program:clerk" not in shown


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
    done = callboard("request", "20250101", "2")
    assert done.exit_code == 3
    assert "Ask, belongs to no model call" in done.stderr
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


def test_a_call_of_a_turn_names_the_request_of_its_reply(callboard: Callboard) -> None:
    listed = callboard("events", "20250101", "--actor", "host.1", "--json").stdout.splitlines()
    seqs = {row["kind"]: row["seq"] for row in map(json.loads, listed)}
    asked = callboard("request", f"20250101#{seqs['ToolReturned']}", "--json").stdout
    assert "Count the files in src" in asked
    assert asked == callboard("request", "20250101#12", "--json").stdout


def test_a_long_conversation_is_folded_and_full_shows_it(callboard: Callboard, tmp_path: Path) -> None:
    path = str(tmp_path / "long.db")

    @tool(effect="read")
    def look(place: int) -> str:
        """Look."""
        return f"seen {place}\n" * 400

    def policy(request: ModelRequest) -> Step:
        return call("look", place=request.turn) if request.turn <= 9 else say("Done.")

    host = Agent("host", tools=[look])
    Runtime(path, model=ScriptedModel(policy)).run_sync(host, "Look.", session_id="one")
    last = Recording.open(path, "one").head.seq
    shown = callboard("request", f"one#{last - 4}", "--log", path)
    assert "9 more messages between; --full shows them" in shown.stdout
    assert "seen 9" in shown.stdout
    assert "seen 1\n" not in shown.stdout
    assert "folded: 4 long texts, 9 lines; --full shows all of it" in shown.stderr
    whole = callboard("request", f"one#{last - 4}", "--full", "--log", path)
    assert whole.stdout.count("seen 1\\n") + whole.stdout.count("seen 1\n") == 400
    assert "folded" not in whole.stderr
    state = callboard("show", "one", "--state", "--actor", "host", "--log", path)
    assert "more messages between" in state.stdout
    assert "folded" in state.stderr
    assert (
        "folded" not in callboard("show", "one", "--state", "--actor", "host", "--full", "--log", path).stderr
    )
