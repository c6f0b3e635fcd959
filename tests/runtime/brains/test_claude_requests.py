"""Requests of the Claude client as whole requests, and replies as the events of a stream."""

from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.brains.claude_requests import message_of, stream_of, written_of
from callboard.runtime.programs.model_reply import ModelReply

MARK = {"cache_control": {"type": "ephemeral"}}


def text(value: str, **more: object) -> dict[str, object]:
    return {"type": "text", "text": value, **more}


def said(role: str, *blocks: object) -> dict[str, object]:
    return {"role": role, "content": [*blocks]}


def decoded(found: Json | tuple[Json, ...]) -> Any:
    return [decoded(one) for one in found] if isinstance(found, tuple) else msgspec.json.decode(found)


def test_messages_of_the_user_that_follow_one_another_are_one_and_those_of_the_client_itself_go() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"cache_control": 1, "caller": 2}}
    for messages, kept in (
        ([{"role": "user", "content": "go"}], [said("user", text("go"))]),
        (
            [said("user", text("a", **MARK)), said("system", text("b")), said("user", text("c"))],
            [said("user", text("a"), text("b"), text("c"))],
        ),
        (
            [said("user", text("a")), said("assistant", text("b")), said("assistant", {**call, "caller": 1})],
            [said("user", text("a")), said("assistant", text("b")), said("assistant", call)],
        ),
        (
            [said("system", text("# Environment\nx")), said("user", text("")), said("user", text("a"))],
            [said("user", text("a"))],
        ),
        # A user and a model may say what the client says of itself.
        (
            [said("user", text("# Environment\nx")), said("assistant", text("x-anthropic-billing-header"))],
            [said("user", text("# Environment\nx")), said("assistant", text("x-anthropic-billing-header"))],
        ),
        (
            [said("user", {"type": "tool_result", "tool_use_id": "t1", "content": [text("a", **MARK)]})],
            [said("user", {"type": "tool_result", "tool_use_id": "t1", "content": [text("a")]})],
        ),
    ):
        assert decoded(written_of({"messages": messages}).messages) == kept


def test_a_request_keeps_its_tools_its_choice_its_bounds_and_no_words_about_the_machine() -> None:
    tools = [
        {"name": "look", "description": "Looks.", "input_schema": {}, "defer_loading": True, **MARK},
        {"name": "DeferredToolPlaceholder", "description": "None."},
    ]
    body = {
        "messages": [said("user", text("a"))],
        "tools": tools,
        "system": [text("x-anthropic-billing-header: 1"), text("Be kind.", **MARK)],
        "max_tokens": 7,
        "temperature": 0,
        "top_p": None,
        "metadata": {"user_id": "u"},
    }
    for choice, forced in (
        ({"type": "tool", "name": "look"}, "look"),
        ({"type": "any", "name": "look"}, ""),
        (None, ""),
    ):
        found = written_of({**body, "tool_choice": choice})
        assert decoded(found.tools) == [{"name": "look", "description": "Looks.", "input_schema": {}}]
        assert decoded(found.system) == [text("Be kind.")]
        assert decoded(found.settings) == {"temperature": 0}
        assert (found.force_tool, found.max_tokens) == (forced, 7)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "messages: give at least one"),
        ({"messages": "go"}, "messages: the client's request has no list"),
        ({"messages": ["go"]}, "messages: the client's request has no list"),
        ({"messages": [{"role": "user", "content": 3}]}, "content: the client's message has neither"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "content: the client's message has neither"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": {}}, ""),
        ({"messages": [{"role": "user", "content": "a"}], "tools": [1]}, "tools: the client's request"),
    ],
)
def test_any_other_body_is_refused_with_the_place(body: dict[str, Any], words: str) -> None:
    if not words:
        assert written_of(body).tools == ()
        return
    with pytest.raises(InvalidPrompt, match=words):
        written_of(body)


def test_a_reply_is_streamed_so_that_its_parts_make_its_blocks_again() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "thinking", "thinking": "Hm."},
        text("Hi."),
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"path": "x"}},
        {"type": "image", "source": {}},
    ]
    message = message_of(ModelReply(blocks, "tool_use", Usage(5, 2)), "claude", "a1")
    assert message == {
        "id": "msg_a1", "type": "message", "role": "assistant", "model": "claude", "content": blocks,
        "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 5, "output_tokens": 2},
    }  # fmt: skip
    events = []
    for record in stream_of(message).decode().removesuffix("\n\n").split("\n\n"):
        name, data = record.split("\n")
        events.append(msgspec.json.decode(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    first, *middle, change, last = events
    assert first["message"] == {**message, "content": [], "stop_reason": None}
    assert change["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert (change["usage"], last) == (message["usage"], {"type": "message_stop"})
    assert joined(middle) == [
        blocks[0], {"type": "thinking", "thinking": "Hm.", "signature": ""}, *blocks[2:],
    ]  # fmt: skip


def joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join the events of blocks, as a client does."""
    found: list[dict[str, Any]] = []
    written = ""
    for one in events:
        kind = one["type"].removeprefix("content_block_")
        if kind == "start":
            assert one["index"] == len(found)
            found.append(dict(one["content_block"]))
            written = ""
        elif kind == "delta":
            delta = one["delta"]
            assert one["index"] == len(found) - 1
            if delta["type"] == "input_json_delta":
                written += delta["partial_json"]
            else:
                key = delta["type"].removesuffix("_delta")
                found[-1][key] += delta[key]
        elif written:
            assert (kind, found[-1]["input"]) == ("stop", {})
            found[-1]["input"] = msgspec.json.decode(written)
            written = ""
    return found
