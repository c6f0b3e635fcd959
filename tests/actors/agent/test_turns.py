"""How an agent ends: by itself, or drained after a stop; and how its conversation goes on afterwards."""

import msgspec
import pytest

from callboard.actors.protocol import prompts
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    DelegationEnded,
    Finished,
    ModelReplied,
    ReportJudged,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.usage import ZERO
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.says import Says, calls
from callboard.replay.testing.sessions.scenario import NO_LIMITS
from tests.actors.harness import FINAL, SCHEMA, USED, Hand


def begun(schema: object = None, limits: Limits = NO_LIMITS) -> Hand:
    hand = Hand()
    hand.begins(schema, limits=limits)
    return hand


def behind_the_calls(hand: Hand) -> list[tuple[object, object]]:
    """Begins again, and returns the blocks of the user's message that answers the last reply."""
    hand.begins(prompt="again")
    blocks = msgspec.convert(hand.conversation()[-1]["content"], list[dict[str, object]])
    return [(one["type"], one.get("content", one.get("text"))) for one in blocks]


def test_who_is_stopped_before_its_grant_waits_for_nothing() -> None:
    assert begun().hears(Stop("cancelled")) == [Stopped()]


def test_who_is_stopped_while_the_model_works_settles_what_the_model_says() -> None:
    hand = begun()
    assert hand.hears(Stop("cancelled", (1, 1))) == []
    assert hand.hears(ModelReplied(1, 1, "cancelled", usage=ZERO)) == [Stopped(Settled(ZERO))]


def test_an_answer_of_unknown_use_is_settled_as_unknown() -> None:
    hand = begun()
    hand.hears(Stop("cancelled", (1, 1)))
    assert hand.hears(ModelReplied(1, 1, "lost")) == [Stopped(Settled(None))]


def test_a_grant_that_was_answered_before_the_stop_is_not_waited_for() -> None:
    """The stop names a grant whose answer was handled, and told, before the stop came."""
    hand = begun()
    hand.calls("look")
    assert hand.hears(Stop("cancelled", (1, 1))) == []
    assert hand.hears(hand.returned(0)) == [Stopped()]
    retried = begun()
    retried.reads(Says(failure=msgspec.structs.replace(FINAL, is_retryable=True)))
    assert retried.hears(Stop("cancelled", (1, 1))) == [Stopped()]


def test_a_stopped_agent_waits_for_every_tool_but_for_no_delegation() -> None:
    hand = begun()
    hand.calls("look", "task", "save")
    assert hand.hears(Stop("cancelled")) == []
    assert hand.hears(hand.returned(2)) == []
    assert hand.hears(hand.returned(0)) == [Stopped()]


def test_a_stopped_agent_starts_nothing_whatever_comes_back() -> None:
    hand = begun(SCHEMA)
    hand.calls("look", "report_back")
    hand.hears(Stop("cancelled"))
    assert hand.hears(hand.returned(0)) == [Stopped()]
    assert hand.state.phase == "idle"


def test_a_stop_that_crosses_the_agents_own_end_is_nothing_to_it() -> None:
    hand = begun()
    assert hand.reads(Says("done")) == [Finished("answered", "done", settled=Settled(USED))]
    assert hand.hears(Stop("cancelled", (1, 1))) == []


# --- and begins again -------------------------------------------------------------


def test_after_a_cancel_every_call_of_the_conversation_has_a_result_in_call_order() -> None:
    hand = begun(SCHEMA)
    hand.calls("look", "task", "save", "nonsense", "report_back")
    hand.hears(hand.returned(2, "saved"))
    hand.hears(Stop("cancelled"))
    hand.hears(hand.returned(0, "looked"))
    assert behind_the_calls(hand) == [
        ("tool_result", "looked"),
        ("tool_result", prompts.CANCELLED),
        ("tool_result", "saved"),
        ("tool_result", prompts.unknown_tool("nonsense", ("look", "save", "pay"))),
        ("tool_result", prompts.CANCELLED),
        ("text", "again"),
    ]


def test_a_delegation_that_ends_while_its_parent_drains_is_remembered() -> None:
    hand = begun()
    hand.calls("look", "task")
    hand.hears(Stop("cancelled"))
    hand.hears(DelegationEnded(1, 1, "cancelled", detail="the agent that delegated has ended"))
    hand.hears(hand.returned(0))
    assert "the agent that delegated has ended" in str(behind_the_calls(hand)[1][1])


def test_reports_that_were_not_judged_are_answered_as_cancelled() -> None:
    hand = begun(SCHEMA)
    hand.reads(calls(("report_back", {"m": 1}), ("report_back", {"n": 1})))
    hand.hears(ReportJudged(1, 0, "late"))
    hand.hears(Stop("cancelled"))
    results = behind_the_calls(hand)
    assert "Too late" in str(results[0][1])
    assert results[1] == ("tool_result", prompts.CANCELLED)


def test_after_a_cap_the_last_results_stand_before_the_next_prompt() -> None:
    hand = begun(limits=Limits(max_iterations=1))
    hand.calls("look")
    assert hand.hears(hand.returned(0, "found")) == [Finished("iteration_cap")]
    assert behind_the_calls(hand) == [("tool_result", "found"), ("text", "again")]


def test_after_a_report_its_judgement_stands_before_the_next_prompt() -> None:
    hand = begun(SCHEMA)
    hand.calls("report_back")
    hand.hears(ReportJudged(1, 0, "accepted"))
    assert behind_the_calls(hand) == [("tool_result", "Accepted."), ("text", "again")]


def test_after_an_answer_the_next_prompt_stands_alone() -> None:
    hand = begun()
    hand.reads(Says("done"))
    hand.begins(prompt="again")
    assert hand.conversation()[-1] == {"role": "user", "content": "again"}


def test_a_cancelled_turn_leaves_no_trace_of_the_model() -> None:
    hand = begun()
    hand.hears(Stop("cancelled", (1, 1)))
    hand.reads(Says("half a thought"))
    hand.begins(prompt="again")
    assert [one["content"] for one in hand.conversation()] == ["go", "again"]


def test_the_next_asks_first_request_names_every_event_whose_content_is_new_in_it() -> None:
    hand = begun()  # 1: Begin
    hand.calls("look", "task")  # 2: the reply
    hand.hears(hand.returned(0))  # 3
    hand.hears(Stop("cancelled"))  # 4: drains at once, the delegation has no answer
    (wish,) = hand.begins()  # 5: Begin
    assert isinstance(wish, TurnRequested)
    assert wish.new == (2, 3, 5)


@pytest.mark.parametrize("schema", [None, SCHEMA, {"type": "array"}])
def test_another_schema_changes_the_fixed_parts_and_keeps_the_conversation(schema: object) -> None:
    hand = begun()
    hand.reads(Says("done"))
    before = hand.state
    hand.begins(schema, prompt="again")
    assert list(hand.state.history.values())[:2] == list(before.history.values())
    assert hand.state.prefix is not None
    assert before.prefix is not None
    assert (hand.state.prefix == before.prefix) == (schema is None)
    assert hand.state.context_tokens >= before.context_tokens
