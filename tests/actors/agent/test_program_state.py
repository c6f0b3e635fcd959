"""The state of a program beside its open calls: when it can only wait, and when it hears of its end."""

from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import NO_CALLS, OpenCall, hear, put
from callboard.actors.agent.program_state import BEGUN, End, program_of
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.replay.testing.sessions.scenario import profile, program_profile
from tests.actors.harness import AgentHarness

CALL = OpenCall(0, 1, 0, ToolUse("a", "look", Json(b"{}")), "tool")


def test_a_program_is_stuck_when_all_is_given_up_and_nothing_comes() -> None:
    assert BEGUN.is_stuck(NO_CALLS)
    assert not BEGUN.is_stuck(put(NO_CALLS, CALL))
    assert BEGUN.is_stuck(put(NO_CALLS, replace(CALL, is_given_up=True)))
    assert not replace(BEGUN, wake=7).is_stuck(NO_CALLS)
    assert not BEGUN.is_stuck(hear(NO_CALLS, Json(b"{}"), 3))


def test_a_step_without_answers_brings_the_news_of_an_end_that_latches() -> None:
    latched = replace(BEGUN, latch=End("budget"))
    assert latched.is_latched(NO_CALLS)
    assert not latched.is_latched(hear(NO_CALLS, Json(b"{}")))
    assert not BEGUN.is_latched(NO_CALLS)


def test_only_a_program_has_such_a_state_and_its_questions_are_bounded_where_that_is_stated() -> None:
    begin = AgentHarness().begin(limits=Limits(max_iterations=4))
    assert program_of(begin, profile("worker")) is None
    assert program_of(begin, program_profile("p")) is BEGUN
    assert program_of(replace(begin, bounds_questions=True), program_profile("p")) == replace(
        BEGUN, questions_max=4
    )
