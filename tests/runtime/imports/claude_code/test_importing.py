import asyncio
from pathlib import Path

import pytest

from callboard import Agent, Runtime, ScriptedModel
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, SessionOpened, Tell
from callboard.actors.protocol.errors import SessionExists, SessionImported
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from tests.runtime.imports.transcripts import (
    Line,
    Writer,
    bash,
    bodies,
    imported,
    recording,
    sent,
    task,
    whole,
    write,
)


def test_a_message_in_pieces_is_one_reply_with_the_usage_of_its_last_piece(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said({"type": "thinking", "thinking": "", "signature": "Eu4="}, id="msg_1", output=1)
    main.said(bash("t1"), id="msg_1", output=1)
    main.result("t1", "a.txt")  # written before the last piece: calls run while the message streams
    main.said(bash("t2"), id="msg_1", output=90)
    main.result("t2", "b.txt")
    main.said("Two files.", id="msg_2")
    write(tmp_path / "s1.jsonl", *main.lines)
    (found,) = imported(tmp_path)
    assert (found.made, found.left_out) == ({"s1": found.events}, {})
    first, second = bodies(tmp_path, "s1", ModelReplied)
    assert (first.usage.output_tokens, first.usage.input_tokens, first.usage.cache_read_tokens) == (
        90,
        3,
        100,
    )
    assert [block["type"] for block in sent(tmp_path, "s1")[1]["content"]] == [
        "thinking",
        "tool_use",
        "tool_use",
    ]
    assert [block["content"] for block in sent(tmp_path, "s1")[2]["content"]] == ["a.txt", "b.txt"]
    assert second.differs == ()
    (end,) = bodies(tmp_path, "s1", AskEnded)
    assert (end.kind, end.text) == ("answered", "Two files.")


def test_times_models_and_the_mark_are_those_of_the_transcript(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"))
    main.result("t1", "gone", is_error=True)
    main.said("No file.", model="claude-haiku-4-5")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    events = recording(tmp_path, "s1", lambda found: list(found.events))
    opened = events[0].body
    assert isinstance(opened, SessionOpened)
    assert (opened.imported, opened.tags, opened.model.name) == (
        "claude-code",
        ("imported",),
        "claude-opus-4-6",
    )
    start = events[0].at
    times = {event.kind: (event.at - start) // 1_000 for event in events}
    assert (times["Ask"], times["CallTool"], times["ToolReturned"], times["AskEnded"]) == (0, 1, 2, 3)
    replies = bodies(tmp_path, "s1", ModelReplied)
    assert [one.model for one in replies] == ["", "claude-haiku-4-5"]
    assert [one.status for one in bodies(tmp_path, "s1", ToolReturned)] == ["error"]


@pytest.mark.parametrize("place", ["same file", "own file", "own file, named beside", "before 2.1"])
def test_a_sub_agent_is_a_delegation_wherever_its_lines_stand(tmp_path: Path, place: str) -> None:
    main, sub = Writer(), Writer(agent="a1", start=2)
    main.user("Look.")
    main.said(task("t1", "Find it."))
    sub.user("Find it.")
    sub.said(bash("b1"), model="claude-haiku-4-5")
    sub.result("b1", "x.txt")
    sub.said("It is x.txt.", model="claude-haiku-4-5")
    main.second = 10
    main.result("t1", [{"type": "text", "text": "It is x.txt."}], toolUseResult={"agentId": "a1"})
    main.said("Found.")
    if place == "same file":
        for line in sub.lines:
            del line["agentId"]
        write(tmp_path / "s1.jsonl", *whole(main, sub))
    else:
        write(tmp_path / "s1.jsonl", *main.lines)
        below = tmp_path if place == "before 2.1" else tmp_path / "s1" / "subagents"
        write(below / "agent-a1.jsonl", *sub.lines)
    if place == "own file, named beside":
        write(
            tmp_path / "s1" / "subagents" / "agent-a1.meta.json", '{"toolUseId":"t1","agentType":"Explore"}'
        )
    (found,) = imported(tmp_path)
    assert (list(found.made), found.left_out) == (["s1"], {})
    _, child = bodies(tmp_path, "s1", Begin)
    assert (bytes(child.prompt), b'"name":"Explore"' in bytes(child.profile)) == (b'"Find it."', True)
    (end,) = bodies(tmp_path, "s1", DelegationEnded)
    assert (end.kind, end.text, end.usage.calls) == ("answered", "It is x.txt.", 2)
    first = bodies(tmp_path, "s1", ModelReplied)[0]
    assert first.differs[0].startswith('the call t1 was Task({"description":"Look around"')
    assert recording(
        tmp_path, "s1", lambda one: [str(e.recipient) for e in one.events if e.kind == "Begin"]
    ) == [
        "host",
        "host.1",
    ]


def test_lines_of_a_sub_agent_count_before_its_result_whatever_their_clock_says(tmp_path: Path) -> None:
    main, sub = Writer(), Writer(agent="a1", start=50)
    main.user("Look.")
    main.said(task("t1", "Find it.", tool="Agent"))
    main.result("t1", "It is x.txt.\nagentId: a1", toolUseResult={"agentId": "a1", "status": "completed"})
    main.said("Found.")
    sub.user("Find it.")
    sub.said("It is x.txt.")
    write(tmp_path / "s1.jsonl", *main.lines)
    write(tmp_path / "s1" / "subagents" / "agent-a1.jsonl", *sub.lines)
    (found,) = imported(tmp_path)
    assert found.left_out == {}
    (end,) = bodies(tmp_path, "s1", DelegationEnded)
    assert end.text == "It is x.txt."
    last = bodies(tmp_path, "s1", ModelReplied)[-1]
    assert last.differs == ("the result of t1 was: It is x.txt.\nagentId: a1",)


def test_a_sub_agent_without_lines_ends_with_the_words_that_its_caller_read(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(task("t1", "Find it."), task("t2", "Find more."))
    main.result("t1", "It is x.txt.")
    main.result("t2", "API Error", is_error=True)
    main.said("Found.")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    ends = bodies(tmp_path, "s1", DelegationEnded)
    assert [(one.kind, one.text) for one in ends] == [("answered", "It is x.txt."), ("model_error", "")]
    assert bodies(tmp_path, "s1", AskEnded)[0].kind == "answered"


def test_a_sub_agent_in_the_background_is_a_session_of_its_own(tmp_path: Path) -> None:
    main, sub = Writer(), Writer(agent="a1", start=2)
    main.user("Look.")
    main.said(task("t1", "Find it.", run_in_background=True))
    main.result("t1", "Async agent launched", toolUseResult={"agentId": "a1", "status": "async_launched"})
    main.said("It runs.")
    sub.user("Find it.")
    sub.said("It is x.txt.")
    write(tmp_path / "s1.jsonl", *main.lines)
    write(tmp_path / "s1" / "subagents" / "agent-a1.jsonl", *sub.lines)
    (found,) = imported(tmp_path)
    assert sorted(found.made) == ["s1", "s1.agent-a1"]
    (opened,) = bodies(tmp_path, "s1.agent-a1", SessionOpened)
    assert b'"part_of":"s1"' in bytes(opened.metadata)


def test_an_abort_ends_the_ask_as_cancelled_and_its_words_go_with_the_next_prompt(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"))
    main.result("t1", "The user doesn't want to proceed with this tool use.", is_error=True)
    main.user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    main.user("Do this instead.")
    main.said("As I was say", id="msg_cut")
    main.user([{"type": "text", "text": "[Request interrupted by user]"}])
    main.user("Go on.")
    main.said("Done.")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    assert [one.kind for one in bodies(tmp_path, "s1", AskEnded)] == ["cancelled", "cancelled", "answered"]
    assert [one.usage.unknown_calls for one in bodies(tmp_path, "s1", AskEnded)] == [0, 0, 0]
    prompts = [bytes(one.prompt).decode() for one in bodies(tmp_path, "s1", Ask)]
    assert "interrupted by user for tool use" in prompts[1]
    assert "Do this instead." in prompts[1]
    assert [one.status for one in bodies(tmp_path, "s1", ModelReplied)] == ["ok", "cancelled", "ok", "ok"]


def test_words_beside_results_are_in_the_request_that_they_were_in(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"))
    main.result("t1", "a.txt")
    main.user("Use the other folder.", isMeta=True)
    main.said("I will.")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    assert len(bodies(tmp_path, "s1", Tell)) == 1
    result, words = sent(tmp_path, "s1")[2]["content"]
    assert (result["content"], "Use the other folder." in words["text"]) == ("a.txt", True)


def test_a_rewind_is_a_fork_and_a_compaction_a_session_that_names_the_one_before(tmp_path: Path) -> None:
    main = Writer()
    main.user("Start")
    ready = main.said("Ready")["uuid"]
    main.user("First attempt")
    main.said("First answer")
    main.parent = ready
    main.user("Second attempt")
    main.said("Second answer")
    main.compacted("Summary: two attempts.")
    main.user("After compaction")
    main.said("Final answer")
    write(tmp_path / "s1.jsonl", *main.lines)
    (found,) = imported(tmp_path)
    assert list(found.made) == ["s1", "s1.2", "s1.3"]
    assert [bytes(one.prompt) for one in bodies(tmp_path, "s1.2", Ask)] == [b'"Start"', b'"Second attempt"']
    (forked,) = bodies(tmp_path, "s1.2", Forked)
    assert (forked.origin, forked.imported) == ("s1", "claude-code")
    (opened,) = bodies(tmp_path, "s1.3", SessionOpened)
    assert b'"continues":"s1.2","because":"compaction"' in bytes(opened.metadata)
    assert "Summary: two attempts." in str(sent(tmp_path, "s1.3")[0])
    assert imported(tmp_path)[0].events == 0


def test_a_second_import_adds_only_what_is_new(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said(bash("t1"))
    main.result("t1", "a.txt")
    main.said("One file.")
    path = write(tmp_path / "s1.jsonl", *main.lines)
    (first,) = imported(tmp_path)
    assert (imported(tmp_path)[0].events, imported(tmp_path)[0].sessions) == (0, 0)
    main.user("And now?")
    main.said("Still one.")
    write(path, *main.lines)
    (second,) = imported(tmp_path)
    assert (second.sessions, second.is_again) == (0, False)
    assert second.made["s1"] == first.made["s1"] + second.events
    assert len(bodies(tmp_path, "s1", AskEnded)) == 2


def test_a_session_whose_last_message_was_written_on_is_made_again(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said("Let me", id="msg_1")
    path = write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)
    main.said(bash("t1"), id="msg_1")
    write(path, *main.lines)
    (found,) = imported(tmp_path)
    assert (found.is_again, list(found.made)) == (True, ["s1"])
    assert imported(tmp_path)[0].events == 0


def test_a_session_of_the_log_that_was_not_imported_is_never_touched(tmp_path: Path) -> None:
    async def run() -> None:
        async with Runtime(str(tmp_path / "log.db"), model=ScriptedModel(["Mine."])) as runtime:
            await runtime.run(Agent("host"), "Hi.", session_id="s1")

    asyncio.run(run())
    main = Writer()
    main.user("Look.")
    main.said("Done.")
    write(tmp_path / "s1.jsonl", *main.lines)
    with pytest.raises(SessionExists, match="'s1' that is not of this transcript"):
        imported(tmp_path)
    assert bodies(tmp_path, "s1", AskEnded)[0].text == "Mine."


def test_an_imported_session_is_forked_and_never_resumed(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said("Done.")
    write(tmp_path / "s1.jsonl", *main.lines)
    imported(tmp_path)

    async def go_on() -> str:
        async with Runtime(str(tmp_path / "log.db"), model=ScriptedModel(lambda request: "More.")) as runtime:
            host = Agent("claude-code")
            with pytest.raises(SessionImported, match="callboard fork s1 --with"):
                await runtime.resume("s1", host, accept_changes=True)
            with pytest.raises(SessionImported):
                await runtime.reopen("s1", host)
            async with await runtime.fork("s1", host, fork_id="f1") as fork:
                assert (await fork.ask("And?")).text == "More."
                await fork.detach()
            async with await runtime.resume("f1", host, accept_changes=True) as fork:
                return fork.session_id

    assert asyncio.run(go_on()) == "f1"
    assert bodies(tmp_path, "f1", Forked)[0].effects == "ask"


def test_the_stream_of_the_command_line_is_read_with_its_sub_agents(tmp_path: Path) -> None:
    def line(kind: str, content: object, above: str | None = None) -> Line:
        message = {"role": kind, "content": content, "model": "claude-x"}
        return {
            "type": kind,
            "message": message,
            "parent_tool_use_id": above,
            "session_id": "s",
            "uuid": f"{content}",
        }

    lines = [
        {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Agent"], "uuid": "1"},
        line("assistant", [task("t1", "Find it.", tool="Agent")]),
        line("user", "Find it.", "t1"),
        line("assistant", [{"type": "text", "text": "x.txt"}], "t1"),
        line("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "x.txt"}]),
        line("assistant", [{"type": "text", "text": "Found."}]),
        {"type": "result", "subtype": "success", "session_id": "s", "uuid": "9"},
    ]
    write(tmp_path / "s1.jsonl", *lines)
    assert list(imported(tmp_path)[0].made) == ["s1"]
    assert [one.text for one in bodies(tmp_path, "s1", DelegationEnded, AskEnded)] == ["x.txt", "Found."]
    assert recording(tmp_path, "s1", lambda found: found.events[0].at) > 10**12  # it has no times of its own
    assert imported(tmp_path)[0].events == 0
