"""The book of open calls, against a plain model of it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import (
    NO_CALLS,
    OpenCall,
    OpenCalls,
    Stage,
    drop,
    find,
    hear,
    put,
    without_answers,
)
from callboard.actors.protocol.immutable import Json

STAGES: list[Stage] = ["line", "tool", "question", "task"]
USE = ToolUse("a", "look", Json(b"{}"))
REPLIES = st.lists(st.lists(st.sampled_from(STAGES), max_size=4), min_size=1, max_size=4)
CHANGES = st.lists(
    st.tuples(st.integers(0, 15), st.sampled_from([*STAGES, "give up", "drop"])), max_size=30
)  # few places, so that changes meet


def opened(replies: list[list[Stage]]) -> OpenCalls:
    """Return the book after these replies, one a turn, each with calls at these stages."""
    calls = NO_CALLS
    for turn, reply in enumerate(replies, 1):
        first = calls.next_ticket
        for index, stage in enumerate(reply):
            calls = put(calls, OpenCall(first + index, turn, index, USE, stage))
        calls = replace(calls, next_ticket=first + len(reply))
    return calls


def changed(calls: OpenCalls, place: tuple[int, int], change: str) -> OpenCalls:
    call = find(calls, *place)
    if call is None:
        return calls
    if change == "drop":
        return drop(calls, call)
    if change == "give up":
        return put(calls, replace(call, is_given_up=True))
    return put(calls, replace(call, stage=next(stage for stage in STAGES if stage == change)))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(REPLIES, CHANGES)
def test_counts_and_line_are_those_of_the_open_calls(
    replies: list[list[Stage]], changes: list[tuple[int, str]]
) -> None:
    calls = opened(replies)
    places = [(turn, index) for turn, reply in enumerate(replies, 1) for index in range(len(reply))]
    known = set(places)
    for at, change in changes if places else ():
        place = places[at % len(places)]
        calls = changed(calls, place, change)
        known -= {place} if change == "drop" else set()
        held = list(calls.open.values())
        assert [(call.turn, call.call) for call in held] == sorted(known)
        assert all((find(calls, *one) is not None) == (one in known) for one in places)
        stages = [call.stage for call in held]
        assert (calls.tools, calls.questions) == (stages.count("tool"), stages.count("question"))
        assert calls.given_up == sum(call.is_given_up for call in held)
        assert [*calls.line.values()] == [call for call in held if call.stage == "line"]


def test_a_call_is_found_by_its_turn_and_its_place_in_the_reply() -> None:
    calls = opened([["tool", "tool"], ["task"], ["tool"]])
    assert find(calls, 3, 0) == OpenCall(3, 3, 0, USE, "tool")
    assert [find(calls, *place) for place in ((2, 1), (9, 0), (0, 0), (1, 2))] == [None] * 4


def test_without_calls_the_book_is_empty_again_and_counts_tickets_from_0() -> None:
    calls = opened([["line"]])
    (call,) = calls.open.values()
    assert without_answers(hear(drop(calls, call), Json(b"{}"))) is NO_CALLS
    assert without_answers(hear(calls, Json(b"{}"))) == calls


def test_answers_keep_the_order_in_which_they_came() -> None:
    calls = hear(hear(NO_CALLS, Json(b"1"), 9), Json(b"2"), 5)
    assert [one.seq for one in calls.answers.values()] == [9, 5]
