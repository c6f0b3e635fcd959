"""Requests as policies read them: each part prints as its text, and its content is found in that."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard import Agent, ModelRequest, Runtime, call, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.models import ModelAnswer
from callboard.runtime.sanitize import clean_text
from callboard.testing import simulate
from tests.tables import table

TOLD = 'say "hi"\nthen é'


@tool(effect="read")
def look() -> dict[str, object]:
    """Look."""
    return {"note": 'found "it"\n', "deep": [{"er": "here"}]}


def read_by(reads: Callable[[Any], object], prompt: str = TOLD) -> object:
    """Return what a policy reads in the request of its second turn."""
    found: list[object] = []

    def policy(request: Any) -> Any:
        if request.turn == 1:
            return call("look")
        found.append(reads(request))
        return say("done")

    host = Agent("host", instructions="Be kind.", tools=[look])
    assert simulate(host, policy, prompt).outcome.is_ok
    return found[0]


SHAPES: dict[str, Callable[[Any], str]] = {
    "all messages": lambda request: str(request.messages),
    "all, formatted": lambda request: f"{request.messages}",
    "all, as a repr": lambda request: repr(request.messages),
    "some messages": lambda request: str(request.messages[-1:]),
    "one message": lambda request: str(request.messages[-1]),
    "one, formatted": lambda request: f"{request.messages[-1]}",
    "one, as a repr": lambda request: repr(request.messages[-1]),
    "one by its place": lambda request: str(request.message(request.length - 1)),
    "each message": lambda request: "".join(str(one) for one in request.messages),
    "a list of messages": lambda request: str(list(request.messages)),
    "messages in a tuple": lambda request: repr((request.system, *request.messages)),
    "the body": lambda request: str(request.body()),
    "the request": lambda request: str(request),
    "decoded": lambda request: str(request.conversation),
}


@table("shape", SHAPES)
def test_every_shape_of_messages_prints_what_it_holds(shape: str) -> None:
    text = read_by(SHAPES[shape])
    assert isinstance(text, str)
    assert "here" in text
    assert "nothing of the kind" not in text
    assert "object at 0x" not in text


@table(
    "shape",
    ["all messages", "all, as a repr", "some messages", "one message", "one by its place", "the body"],
)
def test_texts_with_quotes_and_line_ends_are_found_also_in_json_in_a_text(shape: str) -> None:
    text = read_by(SHAPES[shape])
    assert isinstance(text, str)
    assert 'found "it"\n' in text
    assert '"er":"here"' in text


def test_the_system_prompt_and_the_tools_print_too() -> None:
    assert read_by(lambda request: str(request.system)) == '"Be kind."'
    assert read_by(lambda request: "look" in str(request.tools) and "Look." in str(request.tools[0]))


def test_a_message_holds_its_texts_itself() -> None:
    assert read_by(
        lambda request: 'found "it"' in request.messages[-1] and "nope" not in request.messages[-1]
    )
    with pytest.raises(Exception, match="no message is a text"):
        read_by(lambda request: "found" in request.messages)


def test_a_message_is_its_json() -> None:
    def reads(request: Any) -> None:
        first = request.messages[0]
        assert msgspec.json.decode(first) == request.conversation[0]
        assert bytes(first) == first
        assert Json(bytes(first)) == first
        assert first in request.messages
        assert len({first, request.message(0)}) == 1
        with pytest.raises(TypeError):  # and never as base64
            msgspec.json.encode(first)
        with pytest.raises(IndexError):
            request.message(99)
        with pytest.raises(AttributeError, match="sytem"):
            print(request.sytem)

    read_by(reads)


@given(st.text(min_size=1, max_size=20).filter(str.strip))
def test_any_text_that_was_told_is_found(text: str) -> None:
    told = clean_text(text)
    assert read_by(lambda request: told in str(request.messages) and told in str(request.messages[0]), told)


def test_a_model_of_ones_own_gets_parts_to_send_and_finds_texts_in_all_of_them_together() -> None:
    found: list[object] = []

    class Own:
        spec = ModelSpec("own")

        async def call(self, request: ModelRequest, on_text: object) -> ModelAnswer:
            found.extend(("hi" in str(request.messages), "hi" in str(request.conversation[-1])))
            found.append(msgspec.json.decode(msgspec.json.encode(request.messages[-1]))["content"])
            found.append("hi" in bytes(request.messages[-1]).decode())
            return ModelAnswer(Json(b'[{"type":"text","text":"done"}]'), "end_turn")

        async def aclose(self) -> None:
            pass

    assert Runtime(":memory:", model=Own()).run_sync(Agent("host"), "say hi").text == "done"
    assert found == [True, True, "say hi", True]
