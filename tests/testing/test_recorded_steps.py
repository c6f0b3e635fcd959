"""The steps of a recorded program: each ask once, in order, and only behind the answers that it followed."""

from typing import Any

import msgspec

from callboard.testing.recorded_steps import next_step

STEPS: list[tuple[list[str], dict[str, Any]]] = [
    ([], {"content": [{"type": "program_step"}, *({"type": "tool_use", "id": one} for one in "ab")]}),
    (["a"], {"content": [{"type": "program_step", "cancels": ["b"]}, {"type": "tool_use", "id": "c"}]}),
    (["a", "c"], {"content": [{"type": "program_step"}, {"type": "text", "text": "end"}]}),
]


def step(*said: list[str], heard: str = "") -> tuple[list[str], list[str], str]:
    """Return the asks, the cancels and the text of the step behind these steps and answers."""
    conversation: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for asks in said:
        blocks = [{"type": "program_step"}, *({"type": "tool_use", "id": one} for one in asks)]
        conversation.append({"role": "assistant", "content": blocks})
    results = [{"type": "tool_result", "tool_use_id": one} for one in heard]
    if results:
        conversation.append({"role": "user", "content": results})
    reply = next_step([STEPS], conversation)
    blocks = msgspec.json.decode(reply.content or b"[]")
    head = blocks[0]
    asks = [one["id"] for one in blocks if one["type"] == "tool_use"]
    return asks, head["cancels"], "".join(one.get("text", "") for one in blocks)


def test_each_ask_is_made_once_behind_the_answers_that_it_followed() -> None:
    assert step() == (["a", "b"], [], "")
    assert step(["a", "b"], heard="b") == ([], [], "")
    assert step(["a", "b"], heard="a") == (["c"], ["b"], "")
    assert step(["a", "b"], heard="ba") == (["c"], [], "")
    assert step(["a", "b"], ["c"], heard="ac") == ([], [], "end")


def test_a_program_goes_on_when_nothing_is_open_that_it_could_wait_for() -> None:
    never = [(["x"], STEPS[2][1])]
    reply = next_step([never], [{"role": "user", "content": "go"}])
    assert b"end" in (reply.content or b"")


def test_an_ask_without_a_recorded_run_fails_in_words() -> None:
    talk = [{"role": "user", "content": one} for one in ("go", "again")]
    failure = next_step([STEPS], talk).failure
    assert failure is not None
    assert "no run of this program was recorded" in failure.message
