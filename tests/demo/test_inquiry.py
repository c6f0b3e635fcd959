"""Scripted models as generators: their knowledge, their next questions, and their end."""

from functools import partial

import msgspec

from callboard.demo.inquiry import Census, Depth, Inquiry, ask, turn
from callboard.runtime.models.scripted import Reply, call
from tests.demo.play import request_of
from tests.tables import table

Message = dict[str, object]


def used(*tools: str) -> Message:
    blocks = [{"type": "tool_use", "id": str(n), "name": tool, "input": {}} for n, tool in enumerate(tools)]
    return {"role": "assistant", "content": blocks}


def answered(*contents: str, is_error: bool = False) -> Message:
    blocks = [
        {"type": "tool_result", "tool_use_id": str(n), "content": text, "is_error": is_error}
        for n, text in enumerate(contents)
    ]
    return {"role": "user", "content": blocks}


def inquiry(prompt: str) -> Inquiry[Depth]:
    (census,) = yield from ask("I count.", Census, [call("count_code")])
    again = [call("count_code", files=name) for name in ("a", "b")] if census.files else []
    more = yield from ask("I count more.", Census, again)
    return Depth(census.files + sum(each.files for each in more), prompt)


policy = partial(turn, inquiry)
START: list[Message] = [{"role": "user", "content": "Look."}]


def made(reply: Reply) -> list[tuple[str, dict[str, object]]]:
    return [(each.tool, msgspec.json.decode(each.input)) for each in reply.calls]


def test_the_first_turn_asks_the_first_question() -> None:
    reply = policy(request_of("x", START))
    assert reply.text == "I count."
    assert made(reply) == [("count_code", {})]


def test_the_next_turn_depends_on_the_answer_and_asks_everything_at_once() -> None:
    full = [*START, used("count_code"), answered('{"files": 3}')]
    assert made(policy(request_of("x", full))) == [
        ("count_code", {"files": "a"}),
        ("count_code", {"files": "b"}),
    ]
    last = [*full, used("count_code", "count_code"), answered('{"files": 4}', '{"files": 5}')]
    assert made(policy(request_of("x", last))) == [("report_back", {"levels": 12, "refused": "Look."})]


def test_a_step_without_calls_takes_no_turn() -> None:
    empty = [*START, used("count_code"), answered('{"files": 0}')]
    assert made(policy(request_of("x", empty))) == [("report_back", {"levels": 0, "refused": "Look."})]


@table("content", ['{"files": 3', '{"files": "many"}', "[" * 5_000, "", "null"])
def test_an_answer_that_cannot_be_read_is_empty(content: str) -> None:
    messages = [*START, used("count_code"), answered(content)]
    assert made(policy(request_of("x", messages))) == [("report_back", {"levels": 0, "refused": "Look."})]


def test_an_error_is_empty_even_if_its_text_could_be_read() -> None:
    messages = [*START, used("count_code"), answered('{"files": 3}', is_error=True)]
    assert made(policy(request_of("x", messages))) == [("report_back", {"levels": 0, "refused": "Look."})]


def test_the_same_request_gets_the_same_reply() -> None:
    messages = [*START, used("count_code"), answered('{"files": 1}')]
    assert repr(policy(request_of("x", messages))) == repr(policy(request_of("x", messages)))


def test_a_report_that_is_refused_is_not_sent_again() -> None:
    messages = [
        *START,
        used("count_code"),
        answered("{}"),
        used("report_back"),
        answered("No match.", is_error=True),
    ]
    reply = policy(request_of("x", messages))
    assert not reply.calls
    assert "No match." in reply.text
