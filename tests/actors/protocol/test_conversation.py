"""Messages in the Messages API's shape, and the rolling digest of a request."""

from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.conversation import (
    blocks_of,
    decoded,
    is_by,
    joined,
    merged,
    message,
    program_result,
    rolled,
    system_message,
    text_block,
    text_json,
    tool_result,
    user_message,
)
from callboard.actors.protocol.immutable import NULL, Json
from tests.strategies import json_bytes, texts


def value(raw: Json) -> object:
    return msgspec.json.decode(raw)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(texts)
def test_text_comes_back_as_it_was(text: str) -> None:
    assert value(text_json(text)) == text
    assert value(text_block(text)) == {"type": "text", "text": text}


def test_a_message_has_a_role_and_the_content_as_it_came() -> None:
    assert bytes(message("assistant", Json(b'[ {"b":1} ]'))) == b'{"role":"assistant","content":[ {"b":1} ]}'


def test_a_result_names_its_call_and_says_whether_it_failed() -> None:
    assert value(tool_result("c1", text_json("ok"), is_error=False)) == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "ok",
    }
    assert value(tool_result("c1", Json(b'[{"type":"text","text":"no"}]'), is_error=True)) == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "no"}],
        "is_error": True,
    }


RESULT = tool_result("c1", text_json("ok"), is_error=False)


@pytest.mark.parametrize(
    ("prompt", "behind"),
    [
        (Json(b"null"), []),
        (Json(b'"go on"'), [{"type": "text", "text": "go on"}]),
        (
            Json(b'[{"type":"text","text":"a"}, {"type":"image"}]'),
            [{"type": "text", "text": "a"}, {"type": "image"}],
        ),
        (Json(b"[ ]"), []),
    ],
)
def test_a_users_turn_is_results_first_and_then_the_prompt(prompt: Json, behind: list[object]) -> None:
    assert value(user_message((RESULT,), prompt)) == {"role": "user", "content": [value(RESULT), *behind]}


def test_a_prompt_alone_is_sent_as_it_is() -> None:
    assert value(user_message((), Json(b'"hi"'))) == {"role": "user", "content": "hi"}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(json_bytes, max_size=4), st.lists(json_bytes, max_size=4))
def test_digests_differ_where_requests_do(one: list[Json], other: list[Json]) -> None:
    assert (rolled("", *one) == rolled("", *other)) == (one == other)
    assert rolled("a", *one) != rolled("b", *one)
    assert len(rolled("", *one)) == 32


def test_where_one_part_ends_and_the_next_begins_is_part_of_the_digest() -> None:
    assert rolled("", Json(b"11"), Json(b"1")) != rolled("", Json(b"1"), Json(b"11"))


def test_digests_are_those_of_recorded_requests() -> None:
    first = rolled("", text_json("a"))
    assert (first, rolled(first, text_json("b"), text_json(""))) == (
        "adbc568066da21f8c0d8edfd0b0cc7d8",
        "aab7df47497acecb7b96cf6f95f9d0d4",
    )


def test_a_decoded_conversation_is_that_of_its_messages() -> None:
    assert decoded([user_message((text_block("a"),)), message("assistant", text_json("b"))]) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": "b"},
    ]


def test_a_content_that_is_joined_to_none_stays_as_it_is() -> None:
    assert joined(NULL, text_json("a")) == text_json("a")
    assert value(joined(text_json("a"), NULL)) == [{"type": "text", "text": "a"}]
    assert value(joined(text_json("a"), Json(b'[{"b":1}]'))) == [{"type": "text", "text": "a"}, {"b": 1}]


def test_a_result_for_a_program_says_what_came_and_leaves_out_what_did_not() -> None:
    bare = program_result("c1", text_json("ok"), "ok", is_error=False)
    assert value(bare) == {"type": "tool_result", "tool_use_id": "c1", "content": "ok", "status": "ok"}
    number = Json(b"3")
    full = program_result("c1", NULL, "denied", is_error=True, value=number, text="words", ends="budget")
    assert value(full) == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": None,
        "is_error": True,
        "status": "denied",
        "value": 3,
        "text": "words",
        "ends": "budget",
    }


def test_of_two_objects_the_values_of_the_second_count() -> None:
    first, second = Json(b'{"a":1,"b":[ 2 ]}'), Json(b'{"a":3,"c":null}')
    assert bytes(merged(first, second)) == b'{"a":3,"b":[ 2 ],"c":null}'
    assert merged(NULL, second) is second
    assert merged(first, NULL) is first
    assert merged(NULL, NULL) == NULL


def test_a_role_and_the_blocks_of_a_content_are_read_in_any_form() -> None:
    said = {
        "user": user_message((RESULT,)),
        "assistant": message("assistant", text_json("a")),
        "system": system_message((text_block("a"), text_block("b"))),
    }
    roles: tuple[Literal["user"], Literal["assistant"], Literal["system"]] = ("user", "assistant", "system")
    for role in roles:
        assert [is_by(role, one) for one in said.values()] == [role == other for other in said]
    assert value(said["system"]) == {"role": "system", "content": [value(text_block(one)) for one in "ab"]}
    assert blocks_of(NULL) == ()
    assert [value(one) for one in blocks_of(text_json("a"))] == [value(text_block("a"))]
    assert [bytes(one) for one in blocks_of(Json(b' [{"b":1}, 2]'))] == [b'{"b":1}', b"2"]
