"""Whole messages: answers, garbage, and usage."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.answer_bodies import TOKENS_MAX
from callboard.runtime.models.anthropic.answer import (
    BLOCKS_MAX,
    StreamedMessage,
    answer_of,
    answer_of_body,
    encoded,
    parsed,
    usage_of,
)
from callboard.runtime.models.call_arguments import CONTRADICTED, LOST
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.protocol import ModelAnswer
from tests.messages_api import events_of, message, text, tool_use
from tests.runtime.models.anthropic.kit import content_of
from tests.tables import table

JsonObject = dict[str, object]


@table(
    "block",
    [
        {"type": "tool_use", "id": "i", "input": {}},
        {"type": "tool_use", "id": "i", "name": 5, "input": {}},
        {"type": "tool_use", "id": "i", "name": "n"},
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


def test_the_same_call_twice_is_one_call_and_another_one_under_its_id_gets_its_own() -> None:
    other = {**tool_use("go", {"a": 1}), "id": "same"}
    twice = [{**tool_use("go", {}), "id": "same"}] * 2
    found = content_of(answer_of(message(*twice, other)))
    assert found == [twice[0], {**other, "id": "same_1"}]


def test_a_call_without_an_id_gets_one_of_its_message() -> None:
    bare = {"type": "tool_use", "name": "go", "input": {}}
    (found,) = content_of(answer_of(message(bare)))
    assert found == {**bare, "id": "msg_test_0"}


def test_arguments_of_a_whole_message_that_are_no_object_are_kept_as_text() -> None:
    block = {**tool_use("go", {}), "input": "{}"}
    assert content_of(answer_of(message(block))) == [block]


@table(
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


def put_together(events: Sequence[Mapping[str, object]]) -> tuple[ModelAnswer, str]:
    """Return the answer of these events, and the text that streamed."""
    stream = StreamedMessage()
    told = "".join([stream.take(dict(event)) for event in events])
    return stream.answer(), told


def failure_in(events: Sequence[Mapping[str, object]]) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        put_together(events)
    return caught.value


def with_deltas(start: Mapping[str, object], *deltas: Mapping[str, object]) -> list[JsonObject]:
    """Return the events of a message with one block, made of this start and these deltas."""
    first, *last = events_of(message())
    middle: list[JsonObject] = [{"type": "content_block_start", "index": 0, "content_block": start}]
    middle += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    return [first, *middle, {"type": "content_block_stop", "index": 0}, *last]


def block_of(start: Mapping[str, object], *deltas: Mapping[str, object]) -> JsonObject:
    return content_of(put_together(with_deltas(start, *deltas))[0])[0]


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(), any_json, max_size=4)
blocks = st.one_of(
    st.builds(text, st.text()),
    st.builds(tool_use, st.text(min_size=1), arguments, st.text(min_size=1)),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": st.text(), "signature": st.text()}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": st.text()}),
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": st.text(), "citations": st.lists(arguments, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"type": st.just("server_tool_use"), "id": st.text(), "input": arguments}),
    st.fixed_dictionaries({"type": st.just("from_the_future"), "anything": any_json}),
)


def key_of(block: JsonObject) -> object:
    """Return the key that tells a block apart: a call that comes twice is left out."""
    return block["id"] if block["type"] == "tool_use" else object()


@given(st.lists(blocks, max_size=5, unique_by=key_of), st.integers(1, 20))
def test_a_stream_gives_the_same_answer_as_the_message_in_one_piece(
    content: list[JsonObject], piece_chars: int
) -> None:
    whole = message(*content, stop_reason="end_turn", cache_creation_input_tokens=3)
    streamed, told = put_together(events_of(whole, piece_chars))
    at_once = answer_of(whole)
    assert content_of(streamed) == content_of(at_once) == content
    assert [list(block) for block in content_of(streamed)] == [list(block) for block in content]
    assert (streamed.stop_reason, streamed.usage, streamed.model) == (
        at_once.stop_reason,
        at_once.usage,
        at_once.model,
    )
    assert told == "".join(str(block["text"]) for block in content if block["type"] == "text")


def outcome_of(events: Sequence[object]) -> str:
    """Return the failure's code, or "answer". Any other exception is a bug."""
    stream = StreamedMessage()
    try:
        for event in events:
            stream.take(event)
        stream.answer()
    except CallFailed as failed:
        return failed.failure.code
    return "answer"


@given(st.lists(blocks, max_size=3), st.data())
def test_in_every_order_of_events_the_outcome_is_an_answer_or_a_failure(
    content: list[JsonObject], data: st.DataObject
) -> None:
    events = events_of(message(*content, stop_reason="end_turn"))
    chosen = data.draw(st.lists(st.sampled_from(events), max_size=len(events)))
    assert outcome_of(chosen) in ("answer", "garbage", "broken_stream")


kinds = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error"]
)
keys = ("message", "index", "content_block", "delta", "usage", "error")
broken_events = st.fixed_dictionaries({"type": kinds}, optional=dict.fromkeys(keys, any_json))


@given(st.lists(any_json | broken_events, max_size=6))
def test_events_of_any_form_are_a_failure(events: list[object]) -> None:
    assert outcome_of(events) != "answer"


def test_only_text_is_told_not_thoughts_and_not_arguments() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    answer, told = put_together(events_of(message(thought, text("Yes."), tool_use("go", {"a": 1}))))
    assert told == "Yes."
    assert content_of(answer) == [thought, text("Yes."), tool_use("go", {"a": 1})]


def test_text_that_a_block_starts_with_is_part_of_it_and_told() -> None:
    events = with_deltas(text("One, "), {"type": "text_delta", "text": "two."})
    answer, told = put_together(events)
    assert (content_of(answer), told) == ([text("One, two.")], "One, two.")


def test_a_call_without_arguments_keeps_the_input_that_it_started_with() -> None:
    start = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    assert block_of(start, {"type": "input_json_delta", "partial_json": ""}) == start
    assert block_of(start) == start


@table("cut", ['{"path": "/home/an', '{"a": 1e999}', '{"a": NaN}', "[" * 100_000, "{}{}", "[1]", '"{}"'])
def test_arguments_that_are_no_json_object_are_kept_as_text_and_not_guessed(cut: str) -> None:
    start = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    block = block_of(start, {"type": "input_json_delta", "partial_json": cut})
    assert block["input"] == cut


def test_arguments_of_the_services_own_tools_are_kept_as_text_too() -> None:
    start = {"type": "server_tool_use", "id": "t", "name": "n", "input": {}}
    block = block_of(start, {"type": "input_json_delta", "partial_json": '{"a'})
    assert block["input"] == '{"a'


def test_a_signature_replaces_and_a_compaction_fills_in() -> None:
    start = {"type": "compaction", "content": None, "encrypted_content": None}
    delta = {"type": "compaction_delta", "content": "Summary.", "encrypted_content": "opaque"}
    assert block_of(start, delta) == {**delta, "type": "compaction"}
    thought = {"type": "thinking", "thinking": "", "signature": "old"}
    assert block_of(thought, {"type": "signature_delta", "signature": "new"})["signature"] == "new"


def test_citations_are_collected_also_where_the_block_started_without_a_list() -> None:
    deltas: list[JsonObject] = [{"type": "citations_delta", "citation": {"n": n}} for n in range(2)]
    for start in (text("x"), {**text("x"), "citations": None}, {**text("x"), "citations": []}):
        assert block_of(start, *deltas)["citations"] == [{"n": 0}, {"n": 1}]


def test_a_delta_of_an_unknown_type_ends_the_call_without_a_retry_and_with_its_usage() -> None:
    failed = failure_in(with_deltas(text(""), {"type": "hologram_delta", "hologram": "x"}))
    assert (failed.failure.code, failed.failure.is_retryable) == ("unsupported_stream", False)
    assert "hologram_delta" in failed.failure.message
    assert "stream=False" in failed.failure.message
    assert failed.usage == Usage(10, 5)


def test_events_of_unknown_types_are_ignored() -> None:
    events = events_of(message(text("Hi.")))
    noise: JsonObject = {"type": "something_new", "index": 0}
    mixed = [event for known in events for event in (noise, known, {"type": "ping"})]
    assert content_of(put_together(mixed)[0]) == [text("Hi.")]


def test_blocks_are_ordered_by_their_index() -> None:
    start, zero, delta, stop, *rest = events_of(message(text("a")), 100)
    one = {**zero, "index": 1, "content_block": text("b")}
    assert content_of(put_together([start, one, zero, delta, stop, *rest])[0]) == [text("a"), text("b")]


@table("index", [-1, 1.0, "0", True, BLOCKS_MAX])
def test_a_block_at_a_place_that_cannot_be_is_garbage(index: object) -> None:
    events = events_of(message(text("a")))
    again = {"type": "content_block_start", "index": index, "content_block": text("b")}
    assert failure_in([*events[:2], again]).failure.code == "garbage"


def test_a_message_that_starts_twice_is_garbage() -> None:
    events = events_of(message(text("a")))
    assert failure_in([events[0], *events]).failure.code == "garbage"


def test_totals_replace_earlier_ones_and_nulls_do_not() -> None:
    start, *_, delta, stop = events_of(message(cache_read_input_tokens=9))
    usage = {"output_tokens": 50, "input_tokens": None, "cache_read_input_tokens": 8}
    answer, _ = put_together([start, {**delta, "usage": usage}, stop])
    assert answer.usage == Usage(10, 50, 8)


# Input, cache read and cache write at the start and in the delta. Gateways that do not know the prompt at the
# end write 0; others tell it only then, and correct the start by the part that came from the cache.
@table(
    ("first", "last", "expected"),
    [
        ((500, 0, 0), (0, None, None), (500, 0, 0)),
        ((500, 300, 50), (0, 0, 0), (500, 300, 50)),
        ((180, 1024, 0), (0, 1024, 0), (180, 1024, 0)),
        ((0, 0, 0), (11, 0, 0), (11, 0, 0)),
        ((1204, 0, 0), (180, 1024, 0), (180, 1024, 0)),
        ((1204, 0, 0), (0, 1204, 0), (0, 1204, 0)),
        ((900, 0, 0), (700, 0, 0), (700, 0, 0)),
    ],
)
def test_a_zero_of_the_end_replaces_no_count_of_the_prompt(
    first: Sequence[int], last: Sequence[int | None], expected: Sequence[int]
) -> None:
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts: dict[str, Any] = dict(zip(keys, first, strict=True))
    start, *_, delta, stop = events_of(message(text("Hi."), **counts))
    usage = {**dict(zip(keys, last, strict=True)), "output_tokens": 5}
    answer, _ = put_together([start, {**delta, "usage": usage}, stop])
    assert answer.usage == Usage(expected[0], 5, *expected[1:])


def test_after_a_fallback_the_model_is_the_one_that_answered() -> None:
    hop = {"type": "fallback", "from": {"model": "claude-test"}, "to": {"model": "claude-other"}}
    answer, _ = put_together(events_of(message(hop, text("Hi."))))
    assert answer.model == "claude-other"
    assert content_of(answer)[0] == hop


def test_a_large_stream_is_put_together_in_time_linear_in_its_size() -> None:
    events = events_of(message(text("x" * 60_000)), 1)
    answer, _ = put_together(events)
    assert len(json.loads(bytes(answer.content))[0]["text"]) == 60_000


def test_a_call_whose_arguments_did_not_arrive_does_not_run() -> None:
    start = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    events = [event for event in with_deltas(start) if event["type"] != "content_block_stop"]
    (block,) = content_of(put_together(events)[0])
    assert block == {**start, "input": "", "refused": LOST}


def test_blocks_at_one_index_are_told_apart_by_their_starts() -> None:
    first, *rest = events_of(
        message(text("Hi"), tool_use("go", {"a": 1}, "x"), tool_use("go", {"a": 2}, "y"))
    )
    shared = [{**event, "index": 0} if "index" in event else event for event in rest]
    absent = [{key: value for key, value in event.items() if key != "index"} for event in rest]
    wanted = content_of(put_together([first, *rest])[0])
    assert content_of(put_together([first, *shared])[0]) == wanted
    assert content_of(put_together([first, *absent])[0]) == wanted


def test_input_that_comes_with_the_start_of_a_call_is_its_arguments() -> None:
    start = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}
    assert block_of(start) == start
    other = block_of(start, {"type": "input_json_delta", "partial_json": '{"a": 2}'})
    assert (other["input"], other["refused"]) == ('{"a": 2}\n{"a":1}', CONTRADICTED)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_what_the_service_has_taken_out_of_the_conversation_is_told(is_streamed: bool) -> None:
    """https://platform.claude.com/docs/en/build-with-claude/context-editing: in the answer, or at its end."""
    edit = {"type": "clear_tool_uses_20250919", "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}
    whole = message(text("Hi."))
    if is_streamed:
        streamed, events = StreamedMessage(), events_of(whole)
        events[-2]["context_management"] = {"applied_edits": [edit]}
        for event in events:
            streamed.take(event)
        answer = streamed.answer()
    else:
        answer = answer_of({**whole, "context_management": {"applied_edits": [edit]}})
    assert json.loads(bytes(answer.edits)) == [edit]


@table("told", [None, {}, {"applied_edits": []}, {"applied_edits": None}, "all", [1]])
def test_a_service_that_has_taken_nothing_out_tells_nothing(told: object) -> None:
    assert answer_of({**message(text("Hi.")), "context_management": told}).edits == NULL
