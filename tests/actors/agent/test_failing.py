"""An agent whose decider raises: it counts what is still to come, drains, and can begin again."""

import msgspec
import pytest

from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol import prompts
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop, Stopped, ToolStarted, TurnRequested
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.says import Says
from tests.actors.harness import USED, Hand


def begun() -> Hand:
    hand = Hand()
    hand.begins()
    return hand


def test_an_agent_that_fails_on_its_models_answer_still_settles_it() -> None:
    hand = begun()
    assert hand.fails(hand.reply(Says("done"))) == []
    assert hand.state.phase == "failed"
    assert hand.hears(Stop("crashed", (1, 1))) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_a_tools_answer_waits_for_the_others() -> None:
    hand = begun()
    hand.calls("look", "save")
    hand.fails(hand.returned(0))
    assert hand.hears(Stop("crashed")) == []
    assert hand.hears(hand.returned(1)) == [Stopped()]


def test_an_agent_that_fails_on_anything_else_waits_for_its_model() -> None:
    hand = begun()
    hand.fails(ToolStarted(1, 0))
    assert hand.hears(Stop("crashed", (1, 1))) == []
    assert hand.reads(Says("done")) == [Stopped(Settled(USED))]


def test_a_failed_agent_whose_wish_was_never_granted_waits_for_nothing() -> None:
    hand = begun()
    hand.fails(ToolStarted(1, 0))
    assert hand.hears(Stop("crashed")) == [Stopped()]


def test_a_failed_agent_hears_its_models_answer_before_its_stop() -> None:
    hand = begun()
    hand.fails(ToolStarted(1, 0))
    assert hand.reads(Says("done")) == []
    assert hand.hears(Stop("crashed", (1, 1))) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_its_stop_drains_all_the_same() -> None:
    hand = begun()
    assert hand.fails(Stop("cancelled", (1, 1))) == []
    assert hand.reads(Says("done")) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_begin_is_stopped_and_may_begin_again() -> None:
    hand = Hand()
    assert hand.fails(hand.begin()) == []
    assert hand.hears(Stop("crashed")) == [Stopped()]
    (wish,) = hand.begins()
    assert isinstance(wish, TurnRequested)


def test_results_that_wait_for_the_next_prompt_survive_a_begin_that_failed() -> None:
    hand = Hand()
    hand.begins(limits=Limits(max_iterations=1))
    hand.calls("look")
    hand.hears(hand.returned(0, "found"))
    hand.fails(hand.begin())
    hand.hears(Stop("crashed"))
    hand.begins(prompt="again")
    (result, _) = msgspec.convert(hand.conversation()[-1]["content"], list[dict[str, object]])
    assert result["content"] == "found"


def test_an_agent_that_fails_twice_rests_at_once_and_forgets() -> None:
    hand = begun()
    hand.calls("look")
    hand.fails(ToolStarted(1, 0))
    assert hand.fails(hand.returned(0)) == [Stopped()]
    assert (hand.state.phase, hand.state.turn, len(hand.state.history)) == ("idle", 1, 0)
    assert hand.hears(Stop("crashed")) == []
    (wish,) = hand.begins()
    assert isinstance(wish, TurnRequested)
    assert wish.turn == 2


def test_an_agent_that_cannot_even_drain_rests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(state: AgentState) -> Decision:
        raise ZeroDivisionError

    monkeypatch.setattr("callboard.actors.agent.decider.drain", broken)
    hand = begun()
    assert hand.fails(Stop("cancelled")) == [Stopped()]
    assert (hand.state.phase, len(hand.state.history)) == ("idle", 0)


def test_an_agent_at_rest_that_fails_on_a_stray_message_stays_at_rest() -> None:
    hand = begun()
    hand.reads(Says("done"))
    before = hand.state
    assert hand.fails(ToolStarted(1, 0)) == []
    assert hand.state == before


def test_a_host_that_failed_answers_every_call_of_its_conversation_before_the_next_prompt() -> None:
    hand = begun()
    hand.calls("look", "task")
    hand.fails(hand.returned(0, "found"))
    hand.hears(Stop("crashed"))
    hand.begins(prompt="again")
    content = msgspec.convert(hand.conversation()[-1]["content"], list[dict[str, object]])
    assert [one["type"] for one in content] == ["tool_result", "tool_result", "text"]
    assert [one.get("content") for one in content[:2]] == ["found", prompts.CANCELLED]
