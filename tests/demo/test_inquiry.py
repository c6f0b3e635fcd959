"""Scripted models that act on what they have seen: what they know, what they ask next, and that they end."""

import json
from collections.abc import Generator

import msgspec
import pytest

from callboard.demo.facts import Census
from callboard.demo.inquiry import TURNS_MAX, Report, Seen, Step, ask, policy_of
from callboard.runtime.models.scripted import Reply
from tests.demo.play import request_of

Message = dict[str, object]
FIRST = ask("count_code", path=".")
SECOND = ask("list_files", path="src")


def used(identity: str, tool: str, **arguments: object) -> Message:
    block = {"type": "tool_use", "id": identity, "name": tool, "input": arguments}
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "..."}, block]}


def answered(identity: str, content: object, is_error: bool = False) -> Message:
    block = {"type": "tool_result", "tool_use_id": identity, "content": content, "is_error": is_error}
    return {"role": "user", "content": [block]}


def prompt(text: str = "Look.") -> Message:
    return {"role": "user", "content": text}


def inquiry(seen: Seen) -> Generator[Step, None, Report]:
    """Count, then list if there is anything."""
    yield Step("I count.", [FIRST])
    census = seen.read(FIRST, Census)
    if census and census.files:
        yield Step("I list.", [SECOND, FIRST, SECOND])
    return {"files": census.files if census else -1}


policy = policy_of(inquiry)


def made(reply: Reply) -> list[tuple[str, dict[str, object]]]:
    return [(call.tool, msgspec.json.decode(call.input)) for call in reply.calls]


def test_the_first_turn_asks_the_first_question() -> None:
    reply = policy(request_of("x", [prompt()]))
    assert reply.text == "I count."
    assert made(reply) == [("count_code", {"path": "."})]


def test_the_next_turn_depends_on_what_the_tool_returned() -> None:
    start = [prompt(), used("a", "count_code", path=".")]
    full = policy(request_of("x", [*start, answered("a", '{"path": ".", "files": 3}')]))
    empty = policy(request_of("x", [*start, answered("a", '{"path": "."}')]))
    assert made(full) == [("list_files", {"path": "src"})]
    assert made(empty) == [("report_back", {"files": 0})]


@pytest.mark.parametrize(
    ("content", "is_error"),
    [
        ("OSError: it is not there", True),
        ('{"path": ".", "files": 3', False),
        ('{"path": ".", "files": "many"}', False),
        ("[" * 5_000, False),
        ("", False),
        (None, False),
        ([{"type": "image"}], False),
        (7, False),
    ],
)
def test_an_answer_that_cannot_be_read_counts_as_none(content: object, is_error: bool) -> None:
    messages = [prompt(), used("a", "count_code", path="."), answered("a", content, is_error)]
    assert made(policy(request_of("x", messages))) == [("report_back", {"files": -1})]


def test_answers_may_come_as_text_or_as_blocks_of_text() -> None:
    text = json.dumps({"path": ".", "files": 3})
    for content in (text, [{"type": "text", "text": text}]):
        seen = Seen([prompt(), used("a", "count_code", path="."), answered("a", content)])
        assert seen.read(FIRST, Census) == Census(".", 3)


def test_the_order_of_arguments_does_not_matter() -> None:
    seen = Seen([prompt(), used("a", "search", b=[1], a={"y": 1, "x": 2}), answered("a", "ok")])
    answer = seen.answer(ask("search", a={"x": 2, "y": 1}, b=[1]))
    assert answer is not None
    assert answer.text == "ok"


def test_models_may_use_an_identity_again_in_a_later_turn() -> None:
    turns = [used("a", "one"), answered("a", "1"), used("a", "two"), answered("a", "2")]
    seen = Seen([prompt(), *turns])
    assert [answer.text for _, answer in seen.calls] == ["1", "2"]


def test_the_prompt_is_text_or_blocks_of_text() -> None:
    blocks = [{"type": "text", "text": "Look"}, {"type": "image"}, {"type": "text", "text": "here."}]
    assert Seen([prompt("Look.")]).prompt == "Look."
    assert Seen([{"role": "user", "content": blocks}]).prompt == "Look\nhere."
    assert Seen([]).prompt == ""


def test_messages_of_unknown_shape_are_passed_over() -> None:
    seen = Seen([{"role": 1}, {"content": {"a": 1}}, prompt("Look."), {"role": "assistant", "content": [1]}])
    assert (seen.prompt, seen.calls) == ("Look.", [])


def test_the_same_request_gets_the_same_reply() -> None:
    messages = [prompt(), used("a", "count_code", path="."), answered("a", '{"path": ".", "files": 1}')]
    assert repr(policy(request_of("x", messages))) == repr(policy(request_of("x", messages)))


def test_an_inquiry_without_end_reports_on_its_last_turn() -> None:
    def endless(seen: Seen) -> Generator[Step, None, Report]:
        for number in range(1_000):
            yield Step("One more.", [ask("count_code", path=str(number))])
        return {"turns": seen.turns + 1}

    messages, asked = [prompt()], []
    for turn in range(1, TURNS_MAX + 1):
        asked += made(policy_of(endless)(request_of("x", messages, turn)))
        messages += [used("a", asked[-1][0], **asked[-1][1]), answered("a", "{}")]
    assert len(asked) == TURNS_MAX
    assert asked[-1] == ("report_back", {"turns": TURNS_MAX})


def test_a_report_that_is_not_taken_is_not_repeated_for_ever() -> None:
    messages = [
        prompt(),
        used("a", "report_back", files=1),
        answered("a", "It does not match.", is_error=True),
    ]
    reply = policy(request_of("x", messages))
    assert not reply.calls
    assert "It does not match." in reply.text
