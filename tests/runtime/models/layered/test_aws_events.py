"""The events of ConverseStream, joined to the answer that Converse gives."""

import json
from typing import Any

import pytest
from botocore.exceptions import EventStreamError
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.aws_events import Events
from tests.bedrock_api import event, events, exception
from tests.openai_api import Call, Reply, Thought
from tests.tables import table

CITED = {
    "title": "Page",
    "sourceContent": [{"text": "as it is"}],
    "location": {"web": {"url": "https://a.org"}},
}
USE = {"toolUseId": "a", "name": "b"}
RESULT = {"stdOut": "4", "exitCode": 0}
FRAMES = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm"}}}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "."}}}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "It "}}),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"citation": CITED}}),
    event("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "is."}}),
    event(
        "contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "a", "name": "b"}}}
    ),
    event("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"c":'}}}),
    event("contentBlockDelta", {"contentBlockIndex": 2, "delta": {"toolUse": {"input": " 1}"}}}),
    event("contentBlockStart", {"contentBlockIndex": 3, "start": {"toolResult": {"toolUseId": "d"}}}),
    event("contentBlockDelta", {"contentBlockIndex": 3, "delta": {"toolResult": [{"json": RESULT}]}}),
    event("contentBlockStop", {"contentBlockIndex": 3}),
    event("aNewKind", {"of": "event"}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 1}, "metrics": {"latencyMs": 7}, "trace": {"t": 1}}),
]
WHOLE: Any = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
                {"citationsContent": {"content": [{"text": "It is."}], "citations": [CITED]}},
                {"toolUse": {"toolUseId": "a", "name": "b", "input": '{"c": 1}'}},
                {"toolResult": {"toolUseId": "d", "content": [{"json": RESULT}]}},
            ],
        }
    },
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1},
    "trace": {"t": 1},
}


def taken(*pieces: bytes) -> Events:
    """Return the events in these bytes."""
    found = Events()
    for piece in pieces:
        found.take(piece)
    return found


@given(cuts=st.lists(st.integers(0, sum(map(len, FRAMES))), max_size=8).map(sorted))
def test_events_are_joined_to_the_whole_answer_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b"".join(FRAMES)
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    found = Events()
    assert "".join(map(found.take, pieces)) == "It is."
    assert found.whole() == WHOLE


def test_hidden_reasoning_is_bytes_again() -> None:
    frames = [event(*one) for one in events(Reply((Thought("", "sealed"), "Hi.")))]
    hidden, text = taken(*frames).whole()["output"]["message"]["content"]
    assert hidden == {"reasoningContent": {"redactedContent": b"sealed"}}
    assert text == {"text": "Hi."}


def test_a_call_without_arguments_has_an_empty_text() -> None:
    begin = event("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolUse": USE}})
    (block,) = taken(begin).whole()["output"]["message"]["content"]
    assert block == {"toolUse": {**USE, "input": ""}}


def test_an_answer_that_is_cut_off_has_no_reason_for_its_end() -> None:
    assert "stopReason" not in taken(*FRAMES[:5]).whole()


def test_the_error_of_the_service_is_raised_at_the_end() -> None:
    found = taken(*FRAMES[:2], exception("throttlingException", "Slow."))
    with pytest.raises(EventStreamError, match="Slow"):
        found.whole()


def test_a_hundred_thousand_pieces_are_joined_once() -> None:
    piece = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "x"}})
    found = Events()
    assert len(found.take(piece * 10_000)) == 10_000
    (block,) = found.whole()["output"]["message"]["content"]
    assert block == {"text": "x" * 10_000}


@table(
    "delta",
    [
        {"text": 5},
        {"toolUse": {"input": "{}"}},
        {"reasoningContent": "Hm."},
        {"reasoningContent": {"text": 5}},
        {"reasoningContent": {"redactedContent": "no base64 "}},
        [],
    ],
)
def test_pieces_of_another_form_are_garbage(delta: object) -> None:
    found = Events()
    frame = event("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta})
    with pytest.raises(CallFailed, match="converse"):
        print(found.take(frame), found.whole())


def test_the_answers_of_the_tests_have_the_calls_of_the_reply() -> None:
    frames = [event(*one) for one in events(Reply((Call("look", '{"a":1}', "c1"),)))]
    (block,) = taken(*frames).whole()["output"]["message"]["content"]
    assert json.loads(block["toolUse"]["input"]) == {"a": 1}
