"""The items of the Responses API as messages of a request, and back."""

from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.brains.openai_messages import Conversation, input_of
from callboard.runtime.programs.model_reply import ModelReply

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "x"}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(name: str, call: str = "c", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def items(response: Any) -> list[Any]:
    """Return the items of a response, as the framework gives them back."""
    return list(response.to_input_items())


def output(call: str, told: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call, "output": told}


def test_a_reply_goes_back_as_it_came_with_its_thoughts() -> None:
    said = Conversation()
    blocks = [THOUGHT, text("a"), HIDDEN, use("look", at="x"), text("b")]
    response = said.response(ModelReply(blocks, "tool_use", Usage(input_tokens=3, cache_read_tokens=4)))
    kinds = [item["type"] for item in items(response)]
    assert kinds == ["reasoning", "message", "reasoning", "function_call"]
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (7, 4)
    given = [{"role": "user", "content": "go"}, *items(response), output("c", "seen")]
    result = {"type": "tool_result", "tool_use_id": "c", "content": "seen"}
    assert said.written(given) == (
        [],
        [
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": [result]},
        ],
    )


def test_a_changed_reply_is_converted_item_by_item() -> None:
    said = Conversation()
    first = items(said.response(ModelReply([THOUGHT, text("secret"), use("look", at="x")])))
    changed: list[Any] = [
        first[0],
        {**first[1], "content": [{"type": "output_text", "text": "***"}]},
        first[2],
    ]
    told: list[Any] = [*changed, output("c", [{"type": "input_text", "text": "seen"}])]
    _, (_, reply, result) = said.written([{"role": "user", "content": "go"}, *told])
    assert reply["content"] == [THOUGHT, text("***"), use("look", at="x")]
    assert result["content"][0]["content"] == [text("seen")]


def test_calls_of_equal_ids_are_kept_apart_and_a_failed_one_is_an_error() -> None:
    said = Conversation()
    first = items(said.response(ModelReply([use("look", at="x")])))
    second = items(said.response(ModelReply([use("look", at="y")])))
    assert first[0]["call_id"] != second[0]["call_id"]
    said.failed.add(second[0]["call_id"])
    told = [first[0], output(first[0]["call_id"], "1"), second[0], output(second[0]["call_id"], "")]
    _, (start, *rest) = said.written(told)
    assert start["content"] == [text("(no prompt)")]
    results = [block for message in rest for block in message["content"] if block["type"] == "tool_result"]
    assert results == [
        {"type": "tool_result", "tool_use_id": "c", "content": "1"},
        {"type": "tool_result", "tool_use_id": "c", "content": "(empty)", "is_error": True},
    ]


def test_arguments_that_are_no_object_go_to_the_framework_as_they_came() -> None:
    (item,) = items(Conversation().response(ModelReply([{**use("look"), "input": "{oops"}])))
    assert item["arguments"] == "{oops"


def test_a_conversation_begins_and_ends_with_a_user() -> None:
    _, said = Conversation().written([{"role": "assistant", "content": "So far: a."}])
    assert [one["role"] for one in said] == ["user", "assistant", "user"]
    assert said[2]["content"] == [text("Go on.")]


@pytest.mark.parametrize(
    ("item", "system", "blocks"),
    [
        ({"role": "system", "content": "s"}, ["s"], None),
        (
            {"role": "developer", "content": [{"type": "input_text", "text": "a"}]},
            ["a"],
            None,
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,aGk="}]},
            [],
            [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}],
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_url": "http://x/a.pdf"}]},
            [],
            [{"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}}],
        ),
        ({"role": "user", "content": ""}, [], [text("(empty)")]),
        ({"type": "reasoning", "id": "other", "summary": []}, [], None),
    ],
)
def test_items_of_a_request_have_a_form(item: Any, system: list[str], blocks: Any) -> None:
    found, said = Conversation().written([item])
    assert found == system
    assert said == ([] if blocks is None else [{"role": "user", "content": blocks}])


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"type": "computer_call", "id": "x"}, "an item of type 'computer_call'"),
        ({"role": "user", "content": [{"type": "input_audio"}]}, "a part of type 'input_audio'"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
            "a part of type 'input_image'",
        ),
    ],
)
def test_items_without_a_form_are_refused_by_their_kind(item: Any, why: str) -> None:
    with pytest.raises(MisuseError, match=why):
        Conversation().written([item])


def test_a_prompt_with_images_is_input_and_comes_back_as_it_was() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    page = {"type": "document", "source": {"type": "url", "url": "http://x/a.pdf"}}
    prompt = [text("what?"), image, page]
    given = input_of(Json(msgspec.json.encode(prompt)), [("one", "two")])
    assert Conversation().written(given)[1] == [
        {"role": "user", "content": [text("one")]},
        {"role": "assistant", "content": [text("two")]},
        {"role": "user", "content": prompt},
    ]
    with pytest.raises(MisuseError, match="takes texts, images and documents, not 'search_result'"):
        input_of(Json(b'[{"type":"search_result"}]'), [])
