"""Streams of servers over a real connection: the layer gets each call once, with the reason not to run it."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, UNCLEAR, UNFINISHED
from callboard.runtime.models.layered.dialects import event_of, value_of
from callboard.runtime.models.layered.mending import ChatStream, GeminiStream
from tests import stream_faults
from tests.bedrock_api import event as frame
from tests.messages_api import Canned
from tests.runtime.models.layered.kit import DIALECTS, Api, Service, blocks_of, failure_of, serving

SSE = {"content-type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with serving() as made:
        yield made


def stream_of(dialect: Api, seed: int) -> tuple[Canned, list[stream_faults.TrueCall], bool]:
    """Return a stream of this dialect, the calls that the model wrote, and whether all must come out."""
    chance = Random(seed)
    truth = stream_faults.true_calls(chance)
    write: dict[Api, Any] = {
        "chat": stream_faults.chat_stream,
        "responses": stream_faults.responses_stream,
        "generate-content": stream_faults.gemini_stream,
        "converse": lambda chance, truth: stream_faults.converse_stream(chance, truth, frame),
    }
    events, is_faithful = write[dialect](chance, truth)
    kind = "application/vnd.amazon.eventstream" if dialect == "converse" else "text/event-stream"
    return Canned(b"".join(events), 200, {"content-type": kind}), truth, is_faithful


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_true_calls_come_out_of_a_connection(service: Service, dialect: Api) -> None:
    for seed in range(6):
        answer, truth, _ = stream_of(dialect, seed)
        service.api.reply(answer)
        found, _ = service.ask(dialect=dialect)
        if found.failure is not None:
            assert found.failure.code in ("broken_stream", "garbage")
            continue
        calls = [block for block in blocks_of(found) if block["type"] == "tool_use"]
        run = [(one["name"], one["input"]) for one in calls if isinstance(one["input"], dict)]
        wanted = [(call.name, json.loads(call.text)) for call in truth]
        for call in run:
            if call[0] in stream_faults.TOOLS:
                wanted.remove(call)


def woven() -> Canned:
    """Return a stream of Chat whose pieces belong to either of two calls."""
    pieces = [{"id": name, "index": 0, "function": {"name": "look", "arguments": ""}} for name in "ab"]
    pieces += [{"index": 0, "function": {"arguments": text}} for text in ('{"a":{"b":2', "1}}")]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return Canned(b"".join(stream_faults.sse({**base, **chunk}) for chunk in (*chunks, last)), 200, SSE)


def test_a_call_that_is_not_certain_keeps_its_text_and_the_reason(service: Service) -> None:
    service.api.reply(woven())
    answer, _ = service.ask()
    block = blocks_of(answer)[1]
    assert (block["input"], block["refused"]) == ('{"a":{"b":21}}', UNCLEAR)


def test_a_compressed_stream_is_mended_too(service: Service) -> None:
    plain = woven()
    packed = replace(plain, body=gzip.compress(plain.body), headers={**SSE, "content-encoding": "gzip"})
    service.api.reply(plain, packed)
    (first, _), (second, _) = service.ask(), service.ask()
    assert blocks_of(first) == blocks_of(second)


@pytest.mark.parametrize("dialect", ["chat", "responses", "generate-content"])
@pytest.mark.parametrize(
    "data", ["[" * 5_000, '{"tool_calls": ', '{"choices": [{"delta": {"tool_calls": [5]}}]}']
)
def test_events_of_another_form_are_garbage(service: Service, dialect: Api, data: str) -> None:
    answer = Canned(f'data: {data} "functionCall" "tool_calls"\n\n'.encode(), 200, SSE)
    failure = failure_of(service.failure(answer, dialect=dialect))
    assert failure.code in ("garbage", "broken_stream")


def chunk(*parts: object) -> bytes:
    return event_of({"candidates": [{"content": {"parts": parts}}]})


def call(call_id: str = "", **args: object) -> dict[str, Any]:
    return {"functionCall": {"name": "look", "args": args, **({"id": call_id} if call_id else {})}}


def read(*events: bytes) -> tuple[list[Any], list[str]]:
    """Return the parts of each event, and the reasons not to run the calls."""
    reasons: list[str] = []
    stream = GeminiStream(reasons.extend)
    out = [stream.take(event) for event in events]
    assert stream.end() == b""
    return [value_of(event)["candidates"][0]["content"]["parts"] for event in out], reasons


def test_calls_that_come_once_pass_as_they_came() -> None:
    event = b'data: {"candidates":  [{"content": {"parts": [{"functionCall": {"name": "look"}}]}}]}\n\n'
    assert GeminiStream(lambda reasons: None).take(event) is event
    assert read(chunk(call(a=1), call(a=1)), chunk(call(a=2)))[1] == ["", "", ""]


def test_a_call_that_comes_again_under_its_id_is_left_out() -> None:
    a, b = call("x", a=1), call("x", a=2)
    out, reasons = read(chunk(a), chunk(b), chunk({"text": "Hi"}, a, b))
    assert (out, reasons) == ([[a], [b], [{"text": "Hi"}]], ["", ""])


def test_an_equal_call_without_an_id_in_a_later_event_does_not_run() -> None:
    assert read(chunk(call(a=1)), chunk(call(a=1)))[1] == ["", DOUBLED]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"a": 1}),
        ({"a": "x"}, {"a": "xy"}),
        ({"a": ["x"]}, {"a": ["xy", 1]}),
        ({"a": {}}, {"a": {"b": 1}}),
    ],
)
def test_a_call_whose_arguments_grow_does_not_run(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert read(chunk(call("x", **before)), chunk(call("x", **after)))[1] == [CONTRADICTED] * 2
    assert read(chunk(call("x", **after)), chunk(call("x", **before)))[1] == ["", ""]


def test_a_call_in_pieces_does_not_run() -> None:
    first = {"functionCall": {"name": "look", "willContinue": True}}
    out, reasons = read(chunk(first), chunk({"functionCall": {"partialArgs": []}}), chunk(call("y", a=1)))
    assert ([len(parts) for parts in out], reasons) == ([1, 0, 1], [UNFINISHED, ""])


def chunk_chat(delta: Any = None, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return event_of({"id": "c", "model": "m", "choices": [choice], **more})


def call_chat(name: str, text: str | None, **keys: object) -> dict[str, object]:
    return {"tool_calls": [{**keys, "function": {"name": name, "arguments": text}}]}


def read_chat(*events: bytes) -> tuple[bytes, list[str]]:
    reasons: list[str] = []
    stream = ChatStream(frozenset({"look"}), reasons.extend)
    return b"".join([*map(stream.take, events), stream.end()]), reasons


def test_events_without_calls_pass_as_they_came() -> None:
    events = [
        b": alive\n\n",
        chunk_chat({"content": "Hi"}),
        b'data: {"a":  1}\n\n',
        chunk_chat({}, "stop"),
        DONE,
    ]
    assert read_chat(*events) == (b"".join(events), [])


def test_the_calls_come_before_the_end_with_the_other_keys_of_their_event() -> None:
    first = chunk_chat(
        {"content": "Hi", **call_chat("look", "{", index=0, id="a", sealed="s")}, usage=usage_of(5)
    )
    out, reasons = read_chat(
        first, chunk_chat(call_chat("", "}", index=0)), chunk_chat({}, "tool_calls"), DONE
    )
    text, _, _, calls, usage, done = [event + b"\n\n" for event in out.split(b"\n\n")][:6]
    assert value_of(text)["choices"][0]["delta"] == {"content": "Hi"}
    written = {"sealed": "s", "index": 0, "id": "a", "type": "function"}
    written["function"] = {"name": "look", "arguments": "{}"}
    said = value_of(calls)
    assert said["choices"] == [{"index": 0, "delta": {"tool_calls": [written]}, "finish_reason": None}]
    assert (said["model"], said["usage"], done, reasons) == ("m", None, DONE, [""])
    assert value_of(usage) == {"id": "c", "model": "m", "choices": [], "usage": usage_of(5)}


@pytest.mark.parametrize("finish", [None, "length", "content_filter"])
def test_a_call_without_arguments_in_an_answer_that_was_cut_has_lost_them(finish: str | None) -> None:
    out, reasons = read_chat(chunk_chat(call_chat("look", "", index=0, id="a")), chunk_chat({}, finish))
    assert reasons == [UNFINISHED]
    assert json.dumps("") in out.decode()


def test_a_closing_message_that_comes_twice_is_one() -> None:
    last = event_of(
        {"choices": [{"delta": {}, "message": call_chat("look", "{}", id="a"), "finish_reason": "stop"}]}
    )
    out, reasons = read_chat(last, last, DONE)
    assert reasons == [""]
    assert out.count(b'"look"') == 1


def test_a_call_of_another_form_is_an_error() -> None:
    with pytest.raises(TypeError):
        read_chat(chunk_chat(call_chat("look", 5)))  # type: ignore[arg-type]  # of a server


def test_a_stream_with_calls_may_have_comments_and_no_last_line() -> None:
    out, reasons = read_chat(
        chunk_chat(call_chat("look", "{}", index=0)), b": alive\n\n", chunk_chat({}, "tool_calls"), b""
    )
    assert reasons == [""]
    assert b": alive" in out


def usage_of(made: int) -> dict[str, Any]:
    """Return the report of a server that has made so many tokens."""
    return {"prompt_tokens": 400, "completion_tokens": made, "prompt_tokens_details": {"cached_tokens": 100}}


NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_tokens_details": None}


def reported(chance: Random) -> list[bytes]:
    """Return a stream whose reports are totals, wherever and however often they come; the last is of 5."""
    deltas: list[Any] = [
        {"content": "w"},
        call_chat("look", "{", index=0, id="a"),
        call_chat("", "}", index=0),
    ]
    events: list[tuple[Any, str | None]] = [*((delta, None) for delta in deltas), ({}, "tool_calls")]
    first = chance.randrange(len(events))  # that reports
    out = []
    for at, (delta, finish) in enumerate(events):
        report = usage_of(at + 2) if at >= first else chance.choice([None, NOTHING])
        event = value_of(chunk_chat(delta, finish))
        (event["choices"][0] if chance.random() < 0.3 else event)["usage"] = report
        out.append(event_of(event))
    again = [usage_of(5), NOTHING, None]
    out += [
        event_of({"id": "c", "choices": [], "usage": one})
        for one in chance.sample(again, chance.randrange(4))
    ]
    return [*out, DONE] if chance.random() < 0.8 else out


def test_usage_that_comes_many_times_is_told_once_as_the_total() -> None:
    for seed in range(60):
        out, reasons = read_chat(*reported(Random(seed)))
        events = [event + b"\n\n" for event in out.split(b"\n\n") if event and event + b"\n\n" != DONE]
        told = [usage for event in events if (usage := value_of(event).get("usage")) not in (None, NOTHING)]
        assert (reasons, [one["prompt_tokens"] for one in told]) == ([""], [400]), seed
        assert told[0]["completion_tokens"] == 5, seed
        assert told[0]["prompt_tokens_details"] == {"cached_tokens": 100}, seed
        assert not any(choice.get("usage") for event in events for choice in value_of(event)["choices"]), seed


def test_a_call_is_charged_once_however_often_its_usage_comes(service: Service) -> None:
    for seed in range(6):
        service.api.reply(Canned(b"".join(reported(Random(seed))), 200, SSE))
        answer, _ = service.ask()
        assert answer.usage is not None
        assert (answer.usage.tokens, answer.usage.cache_read_tokens) == (405, 100), seed
