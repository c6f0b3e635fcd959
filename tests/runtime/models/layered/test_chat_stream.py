"""A stream of Chat, in which the calls come as one event at the end."""

import json
from typing import Any

import pytest

from callboard.runtime.models.call_arguments import UNFINISHED
from callboard.runtime.models.layered.chat_stream import ChatStream
from callboard.runtime.models.layered.events import event_of, value_of

DONE = b"data: [DONE]\n\n"


def chunk(delta: Any = None, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return event_of({"id": "c", "model": "m", "choices": [choice], **more})


def call(name: str, text: str | None, **keys: object) -> dict[str, object]:
    return {"tool_calls": [{**keys, "function": {"name": name, "arguments": text}}]}


def read(*events: bytes) -> tuple[bytes, list[str]]:
    reasons: list[str] = []
    stream = ChatStream(frozenset({"look"}), reasons.extend)
    return b"".join([*map(stream.take, events), stream.end()]), reasons


def test_events_without_calls_pass_as_they_came() -> None:
    events = [b": alive\n\n", chunk({"content": "Hi"}), b'data: {"a":  1}\n\n', chunk({}, "stop"), DONE]
    assert read(*events) == (b"".join(events), [])


def test_the_calls_come_before_the_end_with_the_other_keys_of_their_event() -> None:
    first = chunk({"content": "Hi", **call("look", "{", index=0, id="a", sealed="s")}, usage={"n": 1})
    out, reasons = read(first, chunk(call("", "}", index=0)), chunk({}, "tool_calls"), DONE)
    text, _, _, calls, done = [event + b"\n\n" for event in out.split(b"\n\n")][:5]
    assert value_of(text)["choices"][0]["delta"] == {"content": "Hi"}
    written = {"sealed": "s", "index": 0, "id": "a", "type": "function"}
    written["function"] = {"name": "look", "arguments": "{}"}
    said = value_of(calls)
    assert said["choices"] == [{"index": 0, "delta": {"tool_calls": [written]}, "finish_reason": None}]
    assert (said["model"], said["usage"], done, reasons) == ("m", None, DONE, [""])


@pytest.mark.parametrize("finish", [None, "length", "content_filter"])
def test_a_call_without_arguments_in_an_answer_that_was_cut_has_lost_them(finish: str | None) -> None:
    out, reasons = read(chunk(call("look", "", index=0, id="a")), chunk({}, finish))
    assert reasons == [UNFINISHED]
    assert json.dumps("") in out.decode()


def test_a_closing_message_that_comes_twice_is_one() -> None:
    last = event_of(
        {"choices": [{"delta": {}, "message": call("look", "{}", id="a"), "finish_reason": "stop"}]}
    )
    out, reasons = read(last, last, DONE)
    assert reasons == [""]
    assert out.count(b'"look"') == 1


def test_a_call_of_another_form_is_an_error() -> None:
    with pytest.raises(TypeError):
        read(chunk(call("look", 5)))  # type: ignore[arg-type]  # of a server


def test_a_stream_with_calls_may_have_comments_and_no_last_line() -> None:
    out, reasons = read(chunk(call("look", "{}", index=0)), b": alive\n\n", chunk({}, "tool_calls"), b"")
    assert reasons == [""]
    assert b": alive" in out
