"""Whole messages: answers, garbage, and usage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.anthropic.answer import (
    TOKENS_MAX,
    answer_of,
    answer_of_body,
    encoded,
    parsed,
    usage_of,
)
from callboard.runtime.models.anthropic.errors import CallFailed
from tests.messages_api import message, text, tool_use
from tests.runtime.models.anthropic.kit import content_of

JsonObject = dict[str, object]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_use", "name": "n", "input": {}},
        {"type": "tool_use", "id": "", "name": "n", "input": {}},
        {"type": "tool_use", "id": "i", "input": {}},
        {"type": "tool_use", "id": "i", "name": 5, "input": {}},
        {"type": "tool_use", "id": "i", "name": "n"},
        {"type": "tool_use", "id": "i", "name": "n", "input": "{}"},
        {"type": "tool_use", "id": "i", "name": "n", "input": []},
        {"type": "text", "text": None},
        {"type": None},
        {},
        "text",
        None,
    ],
)
def test_a_block_that_the_runtime_could_not_act_on_is_garbage_of_known_usage(block: object) -> None:
    whole = message(text("Hi."))
    whole["content"] = [text("fine"), block]
    with pytest.raises(CallFailed, match="content block 1") as caught:
        answer_of(whole)
    assert (caught.value.failure.code, caught.value.failure.is_retryable) == ("garbage", True)
    assert caught.value.usage == Usage(10, 5)


def test_unknown_blocks_and_unknown_keys_are_kept_in_their_order() -> None:
    blocks: list[JsonObject] = [
        {"zeta": 1, "type": "from_the_future", "alpha": {"id": None}},
        {"type": "tool_use", "id": "i", "name": "n", "input": {"b": 1, "a": 2}, "caller": {"type": "direct"}},
        {"citations": None, "type": "text", "text": "x"},
    ]
    answer = answer_of(message(*blocks))
    assert bytes(answer.content) == bytes(encoded(blocks))


def test_the_same_call_twice_is_passed_on_for_the_agent_to_judge() -> None:
    twice = [tool_use("go", {}, "same"), tool_use("go", {}, "same")]
    assert content_of(answer_of(message(*twice))) == twice


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 1, "output_tokens": 2}, Usage(1, 2)),
        (
            {
                "input_tokens": 1,
                "output_tokens": 2,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 4,
            },
            Usage(1, 2, 3, 4),
        ),
        ({"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": None}, Usage(1, 2)),
        ({"input_tokens": 0, "output_tokens": 0}, Usage()),
        ({"input_tokens": 1}, None),
        ({"input_tokens": -1, "output_tokens": 2}, None),
        ({"input_tokens": 1.5, "output_tokens": 2}, None),
        ({"input_tokens": True, "output_tokens": 2}, None),
        ({"input_tokens": TOKENS_MAX + 1, "output_tokens": 2}, None),
        ({"input_tokens": "1", "output_tokens": 2}, None),
        (None, None),
        ([], None),
    ],
)
def test_usage_is_read_or_not_known_but_never_guessed(usage: object, expected: Usage | None) -> None:
    assert usage_of(usage) == expected
    assert answer_of({**message(text("Hi.")), "usage": usage}).usage == expected


def test_iterations_that_the_totals_leave_out_are_added() -> None:
    part = {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": 1}
    iterations = [
        {**part, "type": "compaction"},
        {**part, "type": "message"},
        {**part, "type": "advisor_message"},
    ]
    usage = {"input_tokens": 1, "output_tokens": 2, "iterations": iterations}
    assert usage_of(usage) == Usage(201, 22, 2)
    assert usage_of({**usage, "iterations": [{"type": "compaction"}]}) is None
    assert usage_of({**usage, "iterations": None}) == Usage(1, 2)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_answer_or_a_failure(body: bytes) -> None:
    with pytest.raises(CallFailed):
        answer_of_body(body)


@given(st.text(alphabet=st.characters()))
def test_any_text_comes_through_unchanged(value: str) -> None:
    content = encoded([text(value)])
    assert parsed(bytes(content)) == [text(value)]
