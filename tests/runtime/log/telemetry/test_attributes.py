"""The attributes of spans."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, Begin, Finished, TurnRequested
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.attributes import (
    Attribute,
    attributes_of,
    cut,
    span_name,
)
from callboard.runtime.log.telemetry.spans import Span
from tests.runtime.telemetry.sessions import SECRET_WORDS, USED, spans_of_host
from tests.tables import table


def one(operation: str, name: str) -> Span:
    return next(span for span in spans_of_host() if (span.operation, span.name) == (operation, name))


def found(operation: str, name: str, chars: int = 0) -> dict[str, Attribute]:
    return attributes_of("one", one(operation, name), chars)


def test_every_span_says_what_it_is_and_where_its_events_stand() -> None:
    for span in spans_of_host():
        attributes = attributes_of("one", span)
        assert attributes[names.OPERATION] == span.operation
        assert attributes[names.CONVERSATION] == "one"
        assert attributes[names.SEQ] == span.begun.seq
        assert attributes[names.TAGS] == ("user:1",)
        assert span_name(span) == f"{span.operation} {span.name}"


def test_a_chat_has_the_usage_of_one_call_with_cached_tokens_as_input() -> None:
    attributes = found("chat", "scripted")
    assert attributes[names.INPUT_TOKENS] == USED.input_tokens + USED.cache_read_tokens
    assert attributes[names.CACHE_READ_TOKENS] == USED.cache_read_tokens
    assert attributes[names.OUTPUT_TOKENS] == USED.output_tokens
    assert attributes[names.COST_USD] == 0.00018
    assert attributes[names.FINISH_REASONS] == ("tool_use",)
    assert attributes[names.PROVIDER] == "_OTHER"
    assert {names.REQUEST_MODEL, names.REQUEST_MAX_TOKENS, names.AGENT_NAME} <= attributes.keys()


def test_usage_stands_on_chats_only_so_that_a_backend_that_adds_up_all_spans_is_right() -> None:
    for span in spans_of_host():
        attributes = attributes_of("one", span)
        assert (names.INPUT_TOKENS in attributes) == (span.operation == "chat")
        assert (names.COST_USD in attributes) == (span.operation == "chat")


def test_a_tool_and_an_agent_have_their_names_and_errors_their_type() -> None:
    tool = found("execute_tool", "boom")
    assert (tool[names.TOOL_NAME], tool[names.EFFECT], tool[names.ERROR_TYPE]) == (
        "boom",
        "write",
        "tool_error",
    )
    assert found("execute_tool", "add")[names.TOOL_DESCRIPTION] == "Add two numbers."
    agent = found("invoke_agent", "kid")
    assert (agent[names.AGENT_NAME], agent[names.AGENT_DESCRIPTION]) == ("kid", "Adds.")
    assert (agent[names.AGENT_KIND], agent[names.ENDING]) == ("model", "answered")
    assert found("invoke_agent", "asks")[names.AGENT_KIND] == "program"
    assert found("invoke_agent", "nobody")[names.ERROR_TYPE] == "denied"
    assert found("invoke_workflow", "host")[names.WORKFLOW_NAME] == "host"


def test_without_a_wish_for_it_no_attribute_holds_content() -> None:
    text = repr([attributes_of("one", span) for span in spans_of_host()])
    for word in (SECRET_WORDS, "Begin.", "three", "How many", '"a":1'):
        assert word not in text


def test_content_is_in_the_form_of_the_conventions() -> None:
    ask = found("invoke_workflow", "host", 1_000)
    assert json.loads(str(ask[names.INPUT_MESSAGES])) == [
        {"role": "user", "parts": [{"type": "text", "content": "Begin."}]}
    ]
    assert json.loads(str(ask[names.OUTPUT_MESSAGES])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "done"}]}
    ]
    tool = found("execute_tool", "boom", 1_000)
    assert tool[names.TOOL_ARGUMENTS] == '{"a":1}'
    assert SECRET_WORDS in str(tool[names.TOOL_RESULT])
    (message,) = json.loads(str(found("chat", "scripted", 1_000)[names.OUTPUT_MESSAGES]))
    assert message["parts"][0]["type"] == "tool_call"


def test_content_is_cut_and_stays_readable() -> None:
    for chars in (1, 5, 30):
        for span in spans_of_host():
            for key, value in attributes_of("one", span, chars).items():
                if key in (names.INPUT_MESSAGES, names.OUTPUT_MESSAGES):
                    (message,) = json.loads(str(value))
                    texts = [part.get("content") or part.get("arguments") or "" for part in message["parts"]]
                    assert sum(map(len, texts)) <= chars
                elif key in (names.TOOL_ARGUMENTS, names.TOOL_RESULT):
                    assert len(str(value)) <= chars
    assert cut("abcdef", 3) == "ab…"
    assert cut("abc", 3) == "abc"


def test_a_block_that_is_no_text_is_named_by_its_kind_and_a_reused_answer_is_marked() -> None:
    span = one("chat", "scripted")
    assert span.ended is not None
    image = Json(b'[{"type":"image","source":{"data":"QUJD"}},{"type":"text","text":"x"}]')
    reply = ModelReplied(1, content=image, reused=9, model="m-1")
    attributes = attributes_of("one", replace(span, ended=replace(span.ended, body=reply)), 100)
    (message,) = json.loads(str(attributes[names.OUTPUT_MESSAGES]))
    assert message["parts"] == [{"type": "image"}, {"type": "text", "content": "x"}]
    assert attributes[names.REUSED] is True
    assert attributes[names.RESPONSE_MODEL] == "m-1"


# --- spans made by hand: each value another one -----------------------------------------


def made(operation: names.Operation, begun: AnyMessage, ended: AnyMessage | None, **more: Any) -> Span:
    """Build a span of events 4 and 9."""
    first, last = (
        Event(seq, 0, "a", "b", 0, body) if body else None for seq, body in ((4, begun), (9, ended))
    )
    assert first is not None
    fields = {"name": "n", "agent": "host.1", "profile": "kid", **more}
    return Span(operation=operation, trace=2, parent=3, begun=first, ended=last, end_ms=7, **fields)


COMMON: dict[str, Attribute] = {
    names.CONVERSATION: "s",
    names.SEQ: 4,
    names.ACTOR: "host.1",
    names.END_SEQ: 9,
}
CHAT: dict[str, Attribute] = {
    **COMMON,
    names.OPERATION: "chat",
    names.AGENT_NAME: "kid",
    names.PROVIDER: "gcp.gemini",
    names.REQUEST_MODEL: "m-1",
    names.REQUEST_MAX_TOKENS: 50,
    names.TURN: 6,
    names.ATTEMPT: 8,
}
TOOL: dict[str, Attribute] = {
    **COMMON,
    names.OPERATION: "execute_tool",
    names.AGENT_NAME: "kid",
    names.TOOL_NAME: "save",
    names.TOOL_TYPE: "function",
    names.EFFECT: "write",
    names.TURN: 6,
}
AGENT: dict[str, Attribute] = {
    **COMMON,
    names.OPERATION: "invoke_agent",
    names.AGENT_NAME: "n",
    names.AGENT_ID: "host.1",
}
MODEL = ModelSpec("m", 50, origin=Origin("a", "google", model="m-1"))
ASKED = TurnRequested(6, 8)
CALL = CallTool(6, 7, "save", "write", Json(b"{}"))
USED_ALL = Usage(3, 5, 7, 11, 13, 17_000_000, 1)


def chat(reply: ModelReplied | None, **more: Any) -> Span:
    return made("chat", CallModel("host.1", 3), reply, asked=ASKED, **{"model": MODEL, **more})


@table(
    ("span", "expected"),
    [
        (chat(ModelReplied(6)), CHAT),
        (
            chat(ModelReplied(6, stop_reason="end", reused=2), charge=USED_ALL, error="busy"),
            {
                **CHAT,
                names.ERROR_TYPE: "busy",
                names.FINISH_REASONS: ("end",),
                names.REUSED: True,
                names.INPUT_TOKENS: 21,
                names.OUTPUT_TOKENS: 5,
                names.CACHE_READ_TOKENS: 7,
                names.CACHE_WRITE_TOKENS: 11,
                names.CHARGED_TOKENS: 13,
                names.COST_USD: 17.0,
            },
        ),
        (
            chat(ModelReplied(6), charge=Usage(calls=1)),
            {**CHAT, names.INPUT_TOKENS: 0, names.OUTPUT_TOKENS: 0},
        ),
        (chat(ModelReplied(6, origin=Origin(model="o"))), {**CHAT, names.RESPONSE_MODEL: "o"}),
        (chat(ModelReplied(6, model="r", origin=Origin(model="o"))), {**CHAT, names.RESPONSE_MODEL: "r"}),
        (
            chat(ModelReplied(6), model=ModelSpec("m", 50, origin=Origin("a"))),
            {**CHAT, names.REQUEST_MODEL: "m", names.PROVIDER: "a"},
        ),
        (made("execute_tool", CALL, ToolReturned(6, 7, "ok")), TOOL),
        (made("execute_tool", CALL, Finished("answered")), TOOL),
        (
            made("execute_tool", replace(CALL, id="t1"), ToolReturned(6, 7, "ok", reused=3), about="x" * 201),
            {
                **TOOL,
                names.TOOL_CALL_ID: "t1",
                names.REUSED: True,
                names.TOOL_DESCRIPTION: "x" * 199 + "…",
            },
        ),
        (
            made("execute_tool", CALL, None, status="unfinished", tags=("t",), ending="cut"),
            {
                **{key: value for key, value in TOOL.items() if key != names.END_SEQ},
                names.UNFINISHED: True,
                names.TAGS: ("t",),
                names.ENDING: "cut",
            },
        ),
        (
            made("invoke_agent", ASKED, Finished("answered"), about="x" * 200),
            {**AGENT, names.AGENT_DESCRIPTION: "x" * 200},
        ),
        (
            made("invoke_workflow", ASKED, None),
            {
                **{key: value for key, value in COMMON.items() if key != names.END_SEQ},
                names.OPERATION: "invoke_workflow",
                names.WORKFLOW_NAME: "n",
            },
        ),
    ],
)
def test_a_span_has_these_attributes_and_no_other(span: Span, expected: dict[str, Attribute]) -> None:
    assert attributes_of("s", span) == expected


USE = {"type": "tool_use", "id": "t1", "name": "save", "input": {"a": 1}}


@table(
    ("content", "chars", "parts"),
    [
        ([USE], 99, [{"type": "tool_call", "id": "t1", "name": "save", "arguments": '{"a":1}'}]),
        ([{"type": "image"}, {"type": "text", "text": "ab"}], 2, [{"type": "image"}, ["ab"]]),
        ([{"type": "text", "text": "ab"}, {"type": "image"}], 2, [["ab"]]),
        ([{"type": "text", "text": "ab"}, {"type": "image"}], 3, [["ab"], {"type": "image"}]),
        ([{"type": "image"}, {"type": "text"}, "x", None], 9, [{"type": "image"}, [""], ["x"], [""]]),
    ],
)
def test_the_parts_of_an_answer_are_cut_together(content: object, chars: int, parts: list[Any]) -> None:
    span = chat(ModelReplied(6, content=Json(json.dumps(content).encode())))
    texts = [{"type": "text", "content": one[0]} if isinstance(one, list) else one for one in parts]
    found = attributes_of("s", span, chars)[names.OUTPUT_MESSAGES]
    assert json.loads(str(found)) == [{"role": "assistant", "parts": texts}]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        (Finished("answered", text="t"), "t"),
        (AskEnded("r", "answered", text="t"), "t"),
        (Finished("answered", text="t", value=Json(b"[1]")), "[1]"),
    ],
)
def test_an_end_is_its_value_or_else_its_text(ended: AnyMessage, said: str) -> None:
    begun = Begin(Json(b"{}"), Json(b'"go"'), ModelSpec("m"), Limits())
    found = attributes_of("s", made("invoke_agent", begun, ended), 99)
    assert json.loads(str(found[names.INPUT_MESSAGES]))[0]["parts"] == [{"type": "text", "content": "go"}]
    assert json.loads(str(found[names.OUTPUT_MESSAGES]))[0]["parts"] == [{"type": "text", "content": said}]


def test_an_answer_without_content_has_none_in_its_span() -> None:
    grant = Event(4, 40, "supervisor", "model", 3, CallModel("host", 3))
    call = Event(5, 50, "host", "tools", 4, CallTool(1, 0, "look", "read", Json(b'{"a":1}')))
    same: dict[str, Any] = {"trace": 1, "parent": 2, "end_ms": 60, "name": "x"}

    def keys(span: Span) -> set[str]:
        return {*attributes_of("s", span, 100)} & {
            names.OUTPUT_MESSAGES,
            names.TOOL_ARGUMENTS,
            names.TOOL_RESULT,
        }

    said = Json(b'[{"type":"text","text":"x"}]')
    for content, shown in ((NULL, set()), (said, {names.OUTPUT_MESSAGES})):
        reply = Event(6, 60, "model", "host", 4, ModelReplied(1, content=content))
        asked = TurnRequested(1)
        assert keys(Span(operation="chat", begun=grant, ended=reply, asked=asked, **same)) == shown
    for output, shown in ((NULL, set()), (Json(b'"x"'), {names.TOOL_RESULT})):
        returned = Event(6, 60, "tools", "host", 5, ToolReturned(1, 0, output=output))
        span = Span(operation="execute_tool", begun=call, ended=returned, **same)
        assert keys(span) == shown | {names.TOOL_ARGUMENTS}
