"""The books of open calls, against a plain model of them."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.eager import EMPTY, Eager, OpenCall, Stage, drop, find, hear, open_calls, put
from callboard.actors.protocol.immutable import Json

STAGES: list[Stage] = ["line", "tool", "question", "task"]
USE = ToolUse("a", "look", Json(b"{}"))
PLACES = st.tuples(st.sampled_from([1, 2, 40]), st.sampled_from([0, 1, 33]))  # few, so that calls meet
CHANGES = st.lists(st.tuples(PLACES, st.sampled_from([*STAGES, "give up", "drop"])), max_size=40)


def changed(books: Eager, place: tuple[int, int], change: str) -> Eager:
    call = find(books, *place)
    if change == "drop":
        return drop(books, call) if call else books
    if change == "give up":
        return put(books, replace(call, is_given_up=True)) if call else books
    stage = next(stage for stage in STAGES if stage == change)
    if call is None:
        return put(books, OpenCall(*place, USE, books.next_ticket, stage))
    return put(books, replace(call, stage=stage))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(CHANGES)
def test_counts_and_line_are_those_of_the_open_calls(changes: list[tuple[tuple[int, int], str]]) -> None:
    books, known = EMPTY, set[tuple[int, int]]()
    for place, change in changes:
        books = changed(books, place, change)
        known = known - {place} if change == "drop" else known | ({place} if change in STAGES else set())
        calls = list(open_calls(books))
        assert {(call.turn, call.call) for call in calls} == known
        assert books.size == len(calls)
        assert books.given_up == sum(call.is_given_up for call in calls)
        in_line = {call.ticket: call for call in calls if call.stage == "line"}
        assert dict(books.line.items()) == in_line
        assert len({call.ticket for call in calls}) == len(calls)


def test_without_calls_the_books_are_empty_again() -> None:
    call = OpenCall(3, 1, USE, 1, "line")
    assert replace(drop(put(EMPTY, call), call), next_ticket=1) == EMPTY


def test_an_agent_is_idle_when_all_is_given_up_and_nothing_comes() -> None:
    call = OpenCall(1, 0, USE, 1, "tool")
    assert EMPTY.is_idle
    assert not put(EMPTY, call).is_idle
    assert put(EMPTY, replace(call, is_given_up=True)).is_idle
    assert not replace(EMPTY, wake=7).is_idle
    assert not hear(EMPTY, Json(b"{}"), 3).is_idle


def test_answers_keep_the_order_in_which_they_came() -> None:
    books = hear(hear(EMPTY, Json(b"1"), 9), Json(b"2"), 5)
    assert [one.seq for one in books.heard.values()] == [9, 5]
