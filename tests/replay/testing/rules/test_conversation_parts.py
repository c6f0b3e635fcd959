"""The parts that a message adds to a conversation."""

from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.replay.testing.rules.conversation_parts import is_phrase, parts_in


def test_each_text_and_result_of_a_user_is_a_part_and_a_reply_is_one() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "found"},
        {"type": "text", "text": "go on"},
        {"type": "image", "source": "x"},
    ]
    image = encode(blocks[2])
    parts = parts_in(encode({"role": "user", "content": blocks}))
    assert parts == [("user", b'"found"'), ("user", b'"go on"'), ("user", image)]
    assert parts_in(encode({"role": "user", "content": "go"})) == [("user", b'"go"')]
    said = encode({"role": "assistant", "content": blocks})
    assert parts_in(said) == [("assistant", encode(blocks))]


def test_a_phrase_is_what_callboard_itself_says_to_a_model() -> None:
    assert is_phrase(("user", encode(prompts.CANCELLED)))
    assert is_phrase(("user", encode("There is no tool named look")))
    assert not is_phrase(("assistant", encode(prompts.CANCELLED)))
    assert not is_phrase(("user", encode("look here")))
    assert not is_phrase(("user", b'{"type":"image"}'))
