"""An agent whose decider raises: it counts the answers still to come, drains, and can begin again."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol import prompts
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop, Stopped, TurnRequested
from callboard.actors.protocol.port_messages import ToolStarted
from callboard.actors.protocol.usage import ZERO, Need
from callboard.actors.protocol.value_types import Settled
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.harness import USED, AgentHarness


def begun() -> AgentHarness:
    agent = AgentHarness()
    agent.begins()
    return agent


def test_an_agent_that_fails_on_its_models_answer_still_settles_it() -> None:
    agent = begun()
    assert agent.fails(agent.reply(Reply("done"))) == []
    assert agent.state.phase == "failed"
    assert agent.hears(Stop("crashed", (1, 1))) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_a_tools_answer_waits_for_the_others() -> None:
    agent = begun()
    agent.calls("look", "save")
    agent.fails(agent.returned(0))
    assert agent.hears(Stop("crashed")) == []
    assert agent.hears(agent.returned(1)) == [Stopped()]


def test_an_agent_that_fails_on_anything_else_waits_for_its_model() -> None:
    agent = begun()
    agent.fails(ToolStarted(1, 0))
    assert agent.hears(Stop("crashed", (1, 1))) == []
    assert agent.reads(Reply("done")) == [Stopped(Settled(USED))]


def test_a_failed_agent_whose_turn_was_never_granted_waits_for_nothing() -> None:
    agent = begun()
    agent.fails(ToolStarted(1, 0))
    assert agent.hears(Stop("crashed")) == [Stopped()]


def test_a_failed_agent_hears_its_models_answer_before_its_stop() -> None:
    agent = begun()
    agent.fails(ToolStarted(1, 0))
    assert agent.reads(Reply("done")) == []
    assert agent.hears(Stop("crashed", (1, 1))) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_its_stop_still_drains() -> None:
    agent = begun()
    assert agent.fails(Stop("cancelled", (1, 1))) == []
    assert agent.reads(Reply("done")) == [Stopped(Settled(USED))]


def test_an_agent_that_fails_on_begin_is_stopped_and_may_begin_again() -> None:
    agent = AgentHarness()
    assert agent.fails(agent.begin()) == []
    assert agent.hears(Stop("crashed")) == [Stopped()]
    (wish,) = agent.begins()
    assert isinstance(wish, TurnRequested)


def test_results_that_wait_for_the_next_prompt_survive_a_begin_that_failed() -> None:
    agent = AgentHarness()
    agent.begins(limits=Limits(max_iterations=1))
    agent.calls("look")
    agent.hears(agent.returned(0, "found"))
    agent.fails(agent.begin())
    agent.hears(Stop("crashed"))
    agent.begins(prompt="again")
    (result, _) = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    assert result["content"] == "found"


def test_an_agent_that_fails_twice_rests_at_once_and_forgets() -> None:
    agent = begun()
    agent.calls("look")
    agent.fails(ToolStarted(1, 0))
    assert agent.fails(agent.returned(0)) == [Stopped()]
    assert (agent.state.phase, agent.state.turn, len(agent.state.history)) == ("idle", 1, 0)
    assert agent.hears(Stop("crashed")) == []
    (wish,) = agent.begins()
    assert isinstance(wish, TurnRequested)
    assert wish.turn == 2


def test_an_agent_that_forgets_still_tells_the_labels_it_has_read() -> None:
    agent = begun()
    agent.calls("look", "look")
    agent.hears(replace(agent.returned(0), labels=("web",)))
    agent.fails(agent.returned(1))
    assert agent.fails(Stop("crashed")) == [Stopped()]
    (wish,) = agent.begins()
    assert isinstance(wish, TurnRequested)
    assert wish.labels == ("web",)


def test_an_agent_that_cannot_even_drain_rests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(state: AgentState) -> Decision:
        raise ZeroDivisionError

    monkeypatch.setattr("callboard.actors.agent.decider.drain", broken)
    agent = begun()
    assert agent.fails(Stop("cancelled")) == [Stopped()]
    assert (agent.state.phase, len(agent.state.history)) == ("idle", 0)


def test_an_agent_at_rest_that_fails_on_a_stray_message_stays_at_rest() -> None:
    agent = begun()
    agent.reads(Reply("done"))
    before = agent.state
    assert agent.fails(ToolStarted(1, 0)) == []
    assert agent.state == before


def test_a_host_that_failed_answers_every_call_of_its_conversation_before_the_next_prompt() -> None:
    agent = begun()
    agent.calls("look", "task")
    agent.fails(agent.returned(0, "found"))
    agent.hears(Stop("crashed"))
    agent.begins(prompt="again")
    content = msgspec.convert(agent.conversation()[-1]["content"], list[dict[str, object]])
    assert [one["type"] for one in content] == ["tool_result", "tool_result", "text"]
    assert [one.get("content") for one in content[:2]] == ["found", prompts.CANCELLED]


def test_an_agent_that_fails_on_its_begin_settles_the_turn_granted_with_it_as_unused() -> None:
    agent = AgentHarness()
    assert agent.fails(replace(agent.begin(), granted=Need(9))) == []
    assert agent.hears(Stop("crashed", (1, 1))) == [Stopped(Settled(ZERO))]


def test_an_agent_that_fails_again_settles_the_turn_granted_with_its_begin_as_unused() -> None:
    agent = AgentHarness()
    agent.fails(replace(agent.begin(), granted=Need(9)))
    assert agent.fails(Stop("crashed", (1, 1))) == [Stopped(Settled(ZERO))]
