"""Calls and results as words."""

from hypothesis import given

from callboard.actors.protocol.histories import why_broken
from callboard.actors.protocol.spoken_calls import has_calls, in_words
from tests.several_models import (
    CHAT,
    CLAUDE,
    IMAGE,
    Said,
    conversations,
    decoded,
    hears,
    result,
    says,
    text,
    use,
)

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def spoken(*said: Said) -> list[dict[str, object]]:
    return decoded(in_words(one.body for one in said))


def test_a_call_and_its_result_are_texts_that_name_the_tool() -> None:
    asked = says(CLAUDE, THOUGHT, text("I look."), use("1", "look", {"path": "长城"}))
    assert spoken(hears(text("Go.")), asked, hears(result("1", "found"), text("And?"))) == [
        {"role": "user", "content": [text("Go.")]},
        {"role": "assistant", "content": [text("I look."), text('[call of look: {"path":"长城"}]')]},
        {"role": "user", "content": [text("[result of look:]"), text("found"), text("And?")]},
    ]


def test_an_image_in_a_result_stays() -> None:
    asked = says(CHAT, use("1"))
    (_, _, last) = spoken(hears(text("Go.")), asked, hears(result("1", [text("seen"), IMAGE, text(" ")])))
    assert last["content"] == [text("[result of look:]"), text("seen"), IMAGE]


def test_a_reply_without_words_is_not_empty() -> None:
    (reply,) = spoken(says(CLAUDE, THOUGHT))
    assert reply["content"] == [text("(no words)")]


@given(conversations())
def test_no_call_no_result_and_no_thought_is_left(said: list[Said]) -> None:
    words = in_words(one.body for one in said)
    assert not has_calls(words)
    assert why_broken(words) == ""
    kinds = {
        block["type"]
        for one in decoded(words)
        if isinstance(one["content"], list)
        for block in one["content"]
    }
    assert kinds <= {"text", "image", "document"}
    assert len(words) == len(said)


def test_calls_are_found_in_blocks_and_not_in_words() -> None:
    assert has_calls([says(CHAT, use("1")).body])
    assert not has_calls([hears(text('"tool_use"')).body, says(CHAT, text("Hi.")).body])
