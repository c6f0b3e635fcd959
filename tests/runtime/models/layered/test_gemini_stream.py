"""Calls of a Gemini stream, each once."""

from typing import Any

import pytest

from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, UNFINISHED
from callboard.runtime.models.layered.events import event_of, value_of
from callboard.runtime.models.layered.gemini_stream import GeminiStream


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
