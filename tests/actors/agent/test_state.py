"""Facts that follow from an agent's state without a message."""

from callboard.actors.agent.state import has_turns_left, initial_agent, need_of, request_of
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.profiles import Prices
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.sessions.replies import Reply, calls
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import SCHEMA, AgentHarness


def test_a_new_agent_knows_its_address_and_nothing_else() -> None:
    state = initial_agent("host.1")
    assert (state.address, state.phase, state.prefix, len(state.history)) == ("host.1", "new", None, 0)


def test_the_need_of_a_call_follows_from_the_context_and_the_prices() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("dear", prices=Prices(2, 10, 0, 5), max_tokens=50))
    tokens = agent.state.context_tokens
    assert need_of(agent.state) == Need(tokens + 50, tokens * 5 + 50 * 10)


def test_turns_are_left_until_the_limit_is_used() -> None:
    agent = AgentHarness()
    agent.begins(limits=Limits(max_iterations=2))
    assert has_turns_left(agent.state)
    agent.calls("look")
    agent.hears(agent.returned(0))
    assert not has_turns_left(agent.state)


def test_the_request_is_the_conversation_as_it_was_when_the_turn_was_asked_for() -> None:
    agent = AgentHarness()
    agent.begins(SCHEMA)
    asked = request_of(agent.state)
    agent.reads(calls(("look", {}), text="hm"))
    assert (asked.turn, asked.attempt, asked.length) == (1, 1, 1)
    assert asked.digest == rolled(_fixed_digest(agent), Json(asked.messages[0]))


def _fixed_digest(agent: AgentHarness) -> str:
    assert agent.state.prefix is not None
    return rolled(agent.state.prefix.digest)


def test_old_requests_do_not_change_while_the_conversation_grows() -> None:
    agent = AgentHarness()
    agent.begins()
    first = request_of(agent.state)
    agent.reads(Reply("on", stop_reason="pause_turn"))
    second = request_of(agent.state)
    agent.hears(Stop("cancelled"))
    assert (first.length, second.length) == (1, 2)
    assert second.messages[:1] == first.messages
