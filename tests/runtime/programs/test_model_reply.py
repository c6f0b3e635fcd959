"""The check of a whole request, and the reply to it."""

import json
from typing import Any

import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.usage import ZERO
from callboard.runtime.programs.model_reply import (
    ModelReply,
    whole_request,
)
from tests.tables import table

USER = {"role": "user", "content": "hello"}
LOOK = {"name": "look", "description": "", "input_schema": {"type": "object"}}


def checked(messages: Any = (USER,), tools: Any = (), **more: Any) -> Any:
    given = {"system": "", "settings": None, "max_tokens": None, "force_tool": "", **more}
    return whole_request(messages, tools, **given)


def test_a_request_is_encoded_with_equal_bytes_for_equal_messages() -> None:
    one, other = checked([USER]), checked([{"content": "hello", "role": "user"}])
    assert one == other
    assert checked(system=" \n") == one
    full = checked(tools=[LOOK], system="s", settings={"top_k": 1}, max_tokens=5, force_tool="look")
    assert (full.max_tokens, full.force_tool, bytes(full.settings)) == (5, "look", b'{"top_k":1}')
    assert [json.loads(bytes(one)) for one in full.tools] == [LOOK]
    assert one.max_tokens == 0, "that of the model"


@table(
    ("given", "why"),
    [
        ({"messages": []}, "at least one"),
        ({"messages": "hello"}, "at least one"),
        ({"messages": USER}, "at least one"),
        ({"messages": [{"role": "system", "content": "x"}]}, r"messages\[0\] is .* give a dict with `role`"),
        ({"messages": [USER, {**USER, "id": 1}]}, r"messages\[1\] is"),
        ({"messages": ["hello"]}, r"messages\[0\] is"),
        ({"messages": [{"role": "user", "content": ""}]}, "has no content"),
        ({"messages": [{"role": "user", "content": 5}]}, "has no content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": object()}]}]}, r"messages\[0\]"),
        ({"tools": [{"description": "x"}]}, r"tools\[0\] is .* `name`"),
        ({"tools": [{"name": "no good"}]}, r"tools\[0\] is"),
        ({"tools": [{"name": []}]}, r"tools\[0\] is"),
        ({"tools": [LOOK, LOOK]}, "two tools have the name 'look'"),
        ({"tools": [LOOK], "force_tool": "save"}, "no tool of the request has this name"),
        ({"max_tokens": 0}, "at least 1"),
        ({"max_tokens": True}, "at least 1"),
        ({"settings": [1]}, "a dict of further parameters"),
        ({"settings": {"a": object()}}, "settings"),
    ],
)
def test_a_request_of_the_wrong_form_names_its_place(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPrompt, match=why):
        checked(**given)


def test_a_reply_has_its_texts_its_calls_and_its_message() -> None:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    reply = ModelReply([{"type": "text", "text": "a"}, call, {"type": "text", "text": "b"}], "tool_use")
    assert (reply.text, reply.calls, reply.usage) == ("a\nb", [call], ZERO)
    assert reply.message == {"role": "assistant", "content": reply.blocks}


def test_a_message_that_was_checked_before_is_not_checked_again() -> None:
    (known,) = checked([USER]).messages
    asked: list[bytes] = []

    def is_known(message: bytes) -> bool:
        asked.append(message)
        return message == bytes(known)

    given = whole_request([USER, {"role": "user", "content": "a\0b"}], (), "", None, None, "", is_known)
    assert given.messages[0] == known
    assert b"\\u0000" not in bytes(given.messages[1])  # cleaned, since it was not known
    assert len(asked) == 2
