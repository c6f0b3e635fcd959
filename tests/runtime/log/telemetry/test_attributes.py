"""The attributes of spans."""

import json

from msgspec.structs import replace

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.attributes import Attribute, attributes_of, cut, span_name
from callboard.runtime.log.telemetry.spans import Span
from tests.runtime.telemetry.sessions import SECRET_WORDS, USED, spans_of_host


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
