"""A typed view of a reply; unreadable content is garbage, never an exception."""

import msgspec
from hypothesis import given, settings

from callboard.actors.agent.content import Said, ToolUse, read
from callboard.actors.protocol.immutable import Json
from tests.strategies import json_bytes
from tests.tables import table


def blocks(*content: object) -> Json:
    return Json(msgspec.json.encode(content))


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


def use(name: object = "look", **more: object) -> dict[str, object]:
    return {"type": "tool_use", "id": "c1", "name": name, "input": {}, **more}


def test_text_blocks_are_joined_and_calls_kept_in_order() -> None:
    said = read(blocks(text("one"), use("a"), text("two"), use("b", id="c2", input={"z": 1, "a": 2})))
    assert said == Said(
        "one\ntwo", (ToolUse("c1", "a", Json(b"{}")), ToolUse("c2", "b", Json(b'{"z":1,"a":2}')))
    )


def test_arguments_keep_their_own_bytes() -> None:
    said = read(Json(b'[{"type":"tool_use","id":"c","name":"a","input":{ "b" : 1.50 }}]'))
    assert said is not None
    assert bytes(said.uses[0].input) == b'{ "b" : 1.50 }'


@table(
    "strange",
    [
        {"type": "thinking", "thinking": "hm", "signature": "abc"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": 5, "name": ["not", "text"], "input": None},
        {"type": "web_search_tool_result", "content": [{"type": "text", "text": 7}]},
        {"type": "from_the_future", "text": {"deep": 1}, "input": "x"},
    ],
)
def test_blocks_of_unknown_types_may_have_any_shape(strange: object) -> None:
    said = read(blocks(strange, text("hello"), use()))
    assert said == Said("hello", (ToolUse("c1", "look", Json(b"{}")),))


@table(
    "content",
    [
        Json(b"null"),
        Json(b'"text"'),
        Json(b"{}"),
        Json(b"[1]"),
        Json(b"[null]"),
        blocks({"text": "no type"}),
        blocks({"type": 3}),
        blocks({"type": "text", "text": None}),
        blocks(use("")),
        blocks({"type": "tool_use", "id": "c", "name": "a"}),
        blocks(use(input=None)),
        blocks(use(input=[1])),
        blocks(use(input=7)),
        blocks(use(name=3)),
        Json(b"[" * 50_000 + b"]" * 50_000),
    ],
)
def test_unreadable_content_is_garbage(content: Json) -> None:
    assert read(content) is None


@table(
    ("content", "is_blank"),
    [
        (Json(b"[]"), True),
        (Json(b" [ ] "), True),
        (blocks(text("")), True),
        (blocks(text(" \n"), text("")), True),
        (blocks(text("x")), False),
        (blocks(use()), False),
        (blocks({"type": "thinking", "thinking": "hm"}), False),
    ],
)
def test_a_reply_of_nothing_but_blank_text_is_blank(content: Json, is_blank: bool) -> None:
    said = read(content)
    assert said is not None
    assert said.is_blank == is_blank


@settings(max_examples=60, deadline=None, derandomize=True)
@given(json_bytes)
def test_any_json_is_read_or_is_garbage(content: Json) -> None:
    assert isinstance(read(content), Said | None)


def test_arguments_as_text_are_no_arguments() -> None:
    said = read(blocks(use(input='{"path": "a'), use()))
    assert said is not None
    assert [one.unread for one in said.uses] == ['{"path": "a', None]
