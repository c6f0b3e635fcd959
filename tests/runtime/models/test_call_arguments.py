"""No call runs with arguments that the model did not write, and none twice, however a server streams them."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from callboard.runtime.models.anthropic.answer import StreamedMessage
from callboard.runtime.models.call_arguments import (
    CONTRADICTED,
    DOUBLED,
    LOST,
    UNCLEAR,
    CallBlock,
    Settled,
    cleaned,
    is_object,
    once_each,
    settled,
)
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.aws_events import Events
from callboard.runtime.models.layered.dialects import value_of
from callboard.runtime.models.layered.mending import ChatStream, GeminiStream
from callboard.runtime.models.layered.responses_stream import ResponsesStream
from tests import stream_faults
from tests.bedrock_api import event as frame
from tests.effort import effort
from tests.stream_faults import TOOLS, TrueCall, true_calls
from tests.tables import table

FIRST_SEED = int(os.environ.get("SEED", "0"))  # for a campaign over other streams
Ran = list[tuple[str, str]]


def plain(name: str, arguments: object) -> tuple[str, str]:
    """Return a call in a form that can be compared."""
    return name, json.dumps(arguments, sort_keys=True)


def run_of(calls: Iterable[tuple[str, str]], reasons: Sequence[str]) -> Ran:
    """Return the calls that would run: of tools that there are, with arguments."""
    pairs = zip(calls, reasons, strict=True)
    ran = [call for call, why in pairs if not why and call[0] in TOOLS and is_object(call[1])]
    return [plain(name, json.loads(text)) for name, text in ran]


def chat(chance: Random, truth: Sequence[TrueCall]) -> tuple[Ran, bool]:
    events, is_faithful = stream_faults.chat_stream(chance, truth)
    reasons: list[str] = []
    stream = ChatStream(frozenset(TOOLS), reasons.extend)
    out = b"".join([*map(stream.take, events), stream.end()])
    calls = []
    for event in out.split(b"\n\n"):
        if b'"tool_calls": [' in event:
            delta = value_of(event + b"\n\n")["choices"][0]["delta"]
            calls += [(one["function"]["name"], one["function"]["arguments"]) for one in delta["tool_calls"]]
    return run_of(calls, reasons), is_faithful


def responses(chance: Random, truth: Sequence[TrueCall]) -> tuple[Ran, bool]:
    events, is_faithful = stream_faults.responses_stream(chance, truth)
    stream = ResponsesStream(lambda text: None)
    for event in events:
        stream.take(event)
    body, reasons = stream.whole()
    calls = [(one["name"], one["arguments"]) for one in json.loads(body)["output"]]
    return run_of(calls, reasons), is_faithful


def gemini(chance: Random, truth: Sequence[TrueCall]) -> tuple[Ran, bool]:
    events, is_faithful = stream_faults.gemini_stream(chance, truth)
    reasons: list[str] = []
    stream = GeminiStream(reasons.extend)
    out = b"".join([*map(stream.take, events), stream.end()])
    calls = []
    for event in filter(None, out.split(b"\n\n")):
        content = value_of(event + b"\n\n")["candidates"][0].get("content", {})
        uses = [part["functionCall"] for part in content.get("parts", ())]
        calls += [(one["name"], json.dumps(one.get("args", {}))) for one in uses]
    return run_of(calls, reasons), is_faithful


def converse(chance: Random, truth: Sequence[TrueCall]) -> tuple[Ran, bool]:
    events, is_faithful = stream_faults.converse_stream(chance, truth, frame)
    stream = Events()
    for event in events:
        stream.take(event)
    content = stream.whole()["output"]["message"]["content"]
    calls = [(one["toolUse"]["name"], one["toolUse"]["input"]) for one in content]
    return run_of(calls, stream.refused), is_faithful


def messages(chance: Random, truth: Sequence[TrueCall]) -> tuple[Ran, bool]:
    events, is_faithful = stream_faults.messages_stream(chance, truth)
    stream = StreamedMessage()
    for event in events:
        stream.take(event)
    content: list[Any] = json.loads(bytes(stream.answer().content))
    return [
        plain(one["name"], one["input"]) for one in content if isinstance(one["input"], dict)
    ], is_faithful


@pytest.mark.parametrize(
    ("read", "least"),
    [(chat, 0.62), (responses, 0.72), (gemini, 0.7), (converse, 0.82), (messages, 0.82)],
)
def test_only_true_calls_run_each_once_however_a_server_writes_them(read: Any, least: float) -> None:
    """least: the share of the calls that must come out. A reader that refuses all is right, and of no use."""
    came = written = 0
    for seed in range(FIRST_SEED, FIRST_SEED + effort(400, 10_000)):
        chance = Random(seed)
        truth = true_calls(chance)
        wanted = Counter(plain(call.name, json.loads(call.text)) for call in truth)
        try:
            ran, is_faithful = read(chance, truth)
        except CallFailed:  # of a stream without an end: the whole answer is asked for again
            continue
        found = Counter(ran)
        assert found <= wanted, (seed, found - wanted)
        if is_faithful:
            assert found == wanted, (seed, wanted - found)
        came, written = came + len(ran), written + len(truth)
    assert came >= least * written, came / written


A, B = '{"a": 1}', '{"b": 2}'


@table(
    ("pieces", "wholes", "is_told", "text"),
    [
        (['{"a"', ": 1}"], [], False, A),
        ([], [A], False, A),
        (['{"a"'], [A], False, A),  # the end of the pieces is lost
        ([": 1"], [A, A], False, A),
        (['{"a"', ": 1}"], ['{"a":1}', ""], False, A),  # the same in another spelling
        (['{"a"', '{"a": 1}'], [], False, A),  # the arguments so far, each time
        (['{"a"', ": 1}", A], [], False, A),  # a flush at the end
        (['{"a": ', "1}", '{"a": ', "1}"], [], False, A),
        ([A, A, A], [], False, A),
        (["", " "], [], True, "{}"),
        ([], [""], True, "{}"),
    ],
)
def test_texts_that_agree_are_the_arguments(
    pieces: list[str], wholes: list[str], is_told: bool, text: str
) -> None:
    assert settled(pieces, wholes, is_told=is_told) == (text, "")


@table(
    ("pieces", "wholes", "text", "why"),
    [
        ([], [], "", LOST),
        ([""], [""], "", LOST),
        ([A], [B], f"{A}\n{B}", CONTRADICTED),
        (['{"b"'], [A], f'{{"b"\n{A}', CONTRADICTED),
        ([], [A, B], f"{A}\n{B}", CONTRADICTED),
        ([A], ['{"a": true}'], f'{A}\n{{"a": true}}', CONTRADICTED),
        ([A, B], [], A + B, ""),  # no object, which says for itself what is wrong
        (['{"a": '], [], '{"a": ', ""),
    ],
)
def test_texts_that_do_not_agree_are_kept_and_no_arguments(
    pieces: list[str], wholes: list[str], text: str, why: str
) -> None:
    found = settled(pieces, wholes, is_told=False)
    assert found == (text, why)
    assert why or not is_object(found.text)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"a": "x\ny\tz\x01"}', "x\ny\tz\x01"),
        ('{\n "a": "x\\"\n\\\\\n"}\n', 'x"\n\\\n'),
        ('{"a": "\r\n"}', "\r\n"),
    ],
)
def test_control_characters_in_strings_are_read_as_meant(raw: str, value: str) -> None:
    for pieces, wholes in (([raw], []), ([raw[:8], raw[8:]], [raw]), ([], [raw, json.dumps({"a": value})])):
        found = settled(pieces, wholes, is_told=True)
        assert (json.loads(found.text), found.why) == ({"a": value}, "")


@table("raw", ['{"a": "x\\\ny"}', '{"a\n": "x', '{"a": "x"\x01}', '{"a": x\n}', "\n"])
def test_other_control_characters_stay_as_they_came(raw: str) -> None:
    assert cleaned(raw) == raw


def test_a_string_without_an_end_is_read_once_and_not_from_each_quote_in_it() -> None:
    raw = '{"a": "\n' + '\\"' * 1_000_000  # from each quote it would take hours
    assert cleaned(raw) == raw


def test_the_halves_of_a_character_may_come_in_two_pieces() -> None:
    assert settled(['{"a": "\ud83d', '\ude00"}'], [], is_told=False) == ('{"a": "\U0001f600"}', "")


def block(*pieces: str, index: object = 0, call_id: str = "a", is_stopped: bool = True) -> CallBlock:
    made = CallBlock(index, call_id, "look")
    for piece in pieces:
        made.add(piece)
    made.is_stopped = is_stopped
    return made


def test_a_call_without_arguments_has_none_once_its_end_was_told() -> None:
    assert block().settled() == Settled("{}")
    assert block(is_stopped=False).settled() == Settled("", LOST)


def test_a_piece_after_the_end_of_a_call_may_be_another_ones() -> None:
    call = block('{"a":1}')
    call.add("")
    assert not call.settled().why
    call.add(" ")
    assert call.settled() == Settled('{"a":1} ', UNCLEAR)


@pytest.mark.parametrize(("piece", "why"), [("", UNCLEAR), ('{"a":', UNCLEAR), ('{"a":1}', "")])
def test_a_call_begins_at_the_index_of_another_one_only_after_that_is_whole(piece: str, why: str) -> None:
    before, call = block(piece, is_stopped=False), block('{"b":1}', call_id="b")
    call.follows(before)
    assert call.settled().why == why


def test_a_call_that_comes_again_under_its_id_is_left_out() -> None:
    first, again, other = block("{}"), block("{}", index=1), block("{}", call_id="b")
    assert once_each([first, again, other]) == {again}


def test_calls_that_contradict_each_other_under_all_keys_do_not_run() -> None:
    calls = [block("{}"), block('{"a":1}')]
    assert not once_each(calls)
    assert [call.settled().why for call in calls] == [CONTRADICTED] * 2
    apart = [block("{}"), block('{"a":1}', index=1)]
    assert not once_each(apart)
    assert [call.settled().why for call in apart] == ["", ""]


def test_an_equal_call_without_an_id_at_the_same_index_does_not_run() -> None:
    calls = [block("{}", call_id=""), block("{}", call_id=""), block("{}", call_id="", index=1)]
    assert not once_each(calls)
    assert [call.settled().why for call in calls] == ["", DOUBLED, ""]
