"""Streams of servers over a real connection: the layer gets each call once, with the reason not to run it."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from callboard.runtime.models.call_arguments import UNCLEAR
from tests import stream_faults
from tests.bedrock_api import event as frame
from tests.messages_api import Canned
from tests.runtime.models.layered.kit import DIALECTS, Api, Service, blocks_of, failure_of, serving

SSE = {"content-type": "text/event-stream"}


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
