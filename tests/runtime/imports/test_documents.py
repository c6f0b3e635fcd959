import asyncio
import json
import sys
from pathlib import Path
from types import FrameType

import pytest

from callboard import Agent, Runtime, ScriptedModel, Usage, call, say, tool
from callboard.actors.protocol.client_messages import AskEnded, SessionOpened
from callboard.actors.protocol.errors import InvalidHistory
from callboard.actors.protocol.messages import DelegationEnded
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.replay import Recording
from callboard.replay.exports.writing import Job, export
from callboard.replay.reading import Source
from callboard.runtime.imports.claude_code.importing import Imported
from callboard.runtime.imports.documents import DocumentImport
from callboard.runtime.log.opening import log_of
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.secrets.registry import Secrets
from tests.runtime.imports.transcripts import bodies, sent

USER = {"role": "user", "content": "2+3?"}
CHAT = [
    {"role": "system", "content": "Be terse."},
    USER,
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":3}'}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "5"},
    {"role": "assistant", "content": "5.", "timestamp": 1_800_000_000},
]  # fmt: skip
MESSAGES = {
    "system": [{"type": "text", "text": "Be terse.", "cache_control": {"type": "ephemeral"}}],
    "model": "claude-x",
    "messages": [
        USER,
        {"role": "assistant", "usage": {"input_tokens": 9, "output_tokens": 2}, "content": [
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 2, "b": 3}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "5"}]},
        {"role": "assistant", "content": "5."},
    ],
    "tools": [{"name": "add", "description": "Add.", "input_schema": {"type": "object"}}],
}  # fmt: skip
RESPONSES = {
    "instructions": "Be terse.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "2+3?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":2,"b":3}'},
        {"type": "function_call_output", "call_id": "c1", "output": "5"},
    ],
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5."}]}],
}


def imported(folder: Path, path: Path, kind: str = "messages") -> Imported:
    """Import a file into the log of a folder."""

    async def run() -> Imported:
        log = log_of(str(folder / "log.db"), "process")
        await log.open()
        try:
            return await DocumentImport(log, path, kind, Secrets()).run()
        finally:
            await log.close()

    return asyncio.run(run())


def file(folder: Path, *values: object, name: str = "talk.json") -> Path:
    """Write a value, or a line for each."""
    (folder / name).write_text("\n".join(json.dumps(value) for value in values))
    return folder / name


@pytest.mark.parametrize("value", [CHAT, MESSAGES, RESPONSES], ids=["chat", "messages", "responses"])
def test_a_conversation_of_each_api_is_a_session(tmp_path: Path, value: object) -> None:
    found = imported(tmp_path, file(tmp_path, value))
    assert list(found.made) == ["talk"]
    (ended,) = bodies(tmp_path, "talk", AskEnded)
    assert (ended.kind, ended.text) == ("answered", "5.")
    (opened,) = bodies(tmp_path, "talk", SessionOpened)
    assert (opened.imported, b"Be terse." in bytes(opened.profiles[0])) == ("messages", True)
    (asked,) = bodies(tmp_path, "talk", CallTool)
    assert (asked.tool, json.loads(bytes(asked.arguments)), asked.id) == ("add", {"a": 2, "b": 3}, "c1")
    assert sent(tmp_path, "talk")[2]["content"][0]["content"] == "5"
    assert imported(tmp_path, file(tmp_path, value)).events == 0


THOUGHT_BY_CHAT = [USER, {"role": "assistant", "content": "5.", "reasoning_content": "Two and three."}]
THOUGHT_BY_RESPONSES = [
    USER,
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Two and three."}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5."}]},
]


@pytest.mark.parametrize("items", [THOUGHT_BY_CHAT, THOUGHT_BY_RESPONSES], ids=["chat", "responses"])
def test_reasoning_is_part_of_its_reply(tmp_path: Path, items: list[object]) -> None:
    imported(tmp_path, file(tmp_path, items))
    (reply,) = bodies(tmp_path, "talk", ModelReplied)
    assert json.loads(bytes(reply.content)) == [
        {"type": "thinking", "thinking": "Two and three.", "signature": ""},
        {"type": "text", "text": "5."},
    ]
    assert Recording.open(tmp_path / "log.db", "talk").verify().is_ok


def test_a_conversation_of_twice_the_turns_takes_about_twice_the_calls(tmp_path: Path) -> None:
    def counted(turns: int) -> int:
        (tmp_path / str(turns)).mkdir()
        reply = {"role": "assistant", "content": "5."}
        path = file(tmp_path / str(turns), [USER, reply] * turns)
        count = 0

        def count_up(frame: FrameType, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(count_up)
        try:
            imported(tmp_path / str(turns), path)
        finally:
            sys.setprofile(None)
        return count

    counted(2)  # it imports what is needed
    small, large = counted(20), counted(80)
    assert large < 4.4 * small


def test_items_may_be_lines_and_so_may_conversations(tmp_path: Path) -> None:
    imported(tmp_path, file(tmp_path, *CHAT, name="items.jsonl"))
    assert bodies(tmp_path, "items", AskEnded)[0].text == "5."
    found = imported(tmp_path, file(tmp_path, MESSAGES, {**RESPONSES, "id": "resp_1"}, name="two.jsonl"))
    assert list(found.made) == ["two-1", "resp_1"]
    assert bodies(tmp_path, "two-1", ModelReplied)[0].usage == Usage(input_tokens=9, output_tokens=2)


def test_a_conversation_that_goes_on_gets_the_new_events_only(tmp_path: Path) -> None:
    first = imported(tmp_path, file(tmp_path, CHAT))
    more = [*CHAT, {"role": "user", "content": "And 4+4?"}, {"role": "assistant", "content": "8."}]
    second = imported(tmp_path, file(tmp_path, more))
    assert (second.is_again, second.made["talk"]) == (False, first.made["talk"] + second.events)
    other = imported(tmp_path, file(tmp_path, MESSAGES))
    assert (other.is_again, list(other.made)) == (True, ["talk"])


def test_results_without_calls_and_calls_without_results(tmp_path: Path) -> None:
    items = [USER, CHAT[2], {"role": "tool", "tool_call_id": "c9", "content": "7"}, CHAT[4]]
    imported(tmp_path, file(tmp_path, items))
    assert [one.status for one in bodies(tmp_path, "talk", ToolReturned)] == ["interrupted"]
    assert bodies(tmp_path, "talk", ModelReplied)[1].differs == ("a result without an open call, c9: 7",)


@pytest.mark.parametrize("text", ["", "{", "7", "[1,2]", '{"a":1}', "not json", '{"messages":7}'])
@pytest.mark.parametrize("kind", ["messages", "otlp"])
def test_a_file_without_a_conversation_is_refused(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(text)
    with pytest.raises(InvalidHistory):
        imported(tmp_path, path, kind)


def spans(folder: Path) -> Path:
    """Record a session with a tool and a sub-agent, and export its spans with their content."""

    @tool(effect="read")
    def look(place: str) -> str:
        """Look."""
        return f"{place}: a.txt"

    finder = Agent("finder", tools=[look])
    host = Agent("host", instructions="Be terse.", agents=[finder])
    model = ScriptedModel(
        {
            "host": [call("task", agent="finder", prompt="Find it."), say("Found.")],
            "finder": [call("look", place="src"), say("a.txt")],
        }
    )

    async def run() -> None:
        async with Runtime(str(folder / "own.db"), model=model) as runtime:
            await runtime.run(host, "Look.", session_id="talk")

    asyncio.run(run())
    with SQLiteReader(folder / "own.db") as reader:
        export("otlp", Job([Source.upto(reader, "talk")], has_content=True), folder / "spans.json")
    return folder / "spans.json"


def test_spans_with_content_are_the_session_that_they_were_made_of(tmp_path: Path) -> None:
    path = spans(tmp_path)
    assert list(imported(tmp_path, path, "otlp").made) == ["talk"]
    (ended,) = bodies(tmp_path, "talk", DelegationEnded)
    assert (ended.kind, ended.text) == ("answered", "a.txt")
    (asked,) = bodies(tmp_path, "talk", CallTool)
    assert (asked.tool, bytes(asked.arguments)) == ("look", b'{"place":"src"}')
    assert [bytes(one.output) for one in bodies(tmp_path, "talk", ToolReturned)] == [b'"src: a.txt"']
    with Recording.open(str(tmp_path / "own.db"), "talk") as there:
        kinds = [event.kind for event in there.events if event.kind not in ("SessionClosed", "Close")]
    with Recording.open(str(tmp_path / "log.db"), "talk") as here:
        assert sorted(event.kind for event in here.events) == sorted([*kinds, "ToolStarted"])
    assert imported(tmp_path, path, "otlp").events == 0


def test_a_call_below_which_an_agent_ran_began_that_agent(tmp_path: Path) -> None:
    def span(name: str, above: str, start: int, **told: object) -> dict[str, object]:
        values = [
            {"key": key, "value": {"stringValue": value if isinstance(value, str) else json.dumps(value)}}
            for key, value in {"gen_ai.operation.name": name.split()[0], **told}.items()
        ]
        nanos = {"startTimeUnixNano": str(start * 10**9), "endTimeUnixNano": str((start + 1) * 10**9)}
        about = {"traceId": "t", "spanId": f"{name}{start}", "parentSpanId": above, "name": name}
        return {**about, **nanos, "attributes": values}

    def say_it(text: str) -> list[dict[str, object]]:
        return [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]

    asks = [{"role": "user", "parts": [{"type": "text", "content": "Look."}]}]
    listed = [
        span("invoke_agent a", "", 1, **{"gen_ai.agent.name": "boss", "gen_ai.input.messages": asks}),
        span("chat m", "invoke_agent a1", 1, **{"gen_ai.output.messages": say_it("I ask.")}),
        span("execute_tool ask", "invoke_agent a1", 3, **{
            "gen_ai.tool.name": "ask", "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "a.txt",
            "gen_ai.tool.call.arguments": {"prompt": "Find it."}}),
        span("invoke_agent b", "execute_tool ask3", 3, **{"gen_ai.agent.name": "finder"}),
        span("chat m", "invoke_agent b3", 3, **{"gen_ai.output.messages": say_it("a.txt")}),
        span("chat m", "invoke_agent a1", 5, **{"gen_ai.output.messages": say_it("Found.")}),
        span("HTTP GET", "chat m1", 1),
    ]  # fmt: skip
    document = {"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}
    imported(tmp_path, file(tmp_path, document), "otlp")
    (ended,) = bodies(tmp_path, "t", DelegationEnded)
    assert (ended.text, ended.metadata.subagent) == ("a.txt", "finder")
    first = bodies(tmp_path, "t", ModelReplied)[0]
    assert first.differs == ('the call c1 was ask({"prompt":"Find it."})',)
    assert bodies(tmp_path, "t", AskEnded)[0].text == "Found."
