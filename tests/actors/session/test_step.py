"""The one step function, and what stands in place of a decision that raised."""

from random import Random
from typing import Literal, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import (
    AgentInput,
    AnyMessage,
    DeciderFailed,
    ReportJudged,
    Stop,
    Stopped,
    SupervisorInput,
)
from callboard.actors.protocol.port_messages import ApprovalGiven
from callboard.actors.session.step import ActorState, failed, forgotten, initial, is_at_rest, step, steps
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply
from tests.actors.harness import AgentHarness, SessionHarness
from tests.effort import effort
from tests.session_plans import Plan, play
from tests.strategies import MESSAGES, any_message, messages
from tests.tables import table


def event(body: AnyMessage, recipient: str, sender: str = "client", seq: int = 7) -> Event:
    return Event(seq, 0, sender, recipient, 0, body)


def test_the_supervisor_and_agents_start_from_nothing() -> None:
    assert initial("supervisor") == SupervisorState()
    assert initial("host.3") == AgentState("host.3")


@table("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_that_is_not_for_an_actor_changes_nothing(kind: type[msgspec.Struct]) -> None:
    @settings(max_examples=3, deadline=None, derandomize=True)
    @given(st.data())
    def changes_nothing(data: st.DataObject) -> None:
        body: AnyMessage = data.draw(messages(kind))
        if kind not in get_args(AgentInput):
            assert step(initial("host"), event(body, "host")) == (initial("host"), ())
        if kind not in get_args(SupervisorInput):
            assert step(initial("supervisor"), event(body, "supervisor")) == (initial("supervisor"), ())

    changes_nothing()


SENDERS = st.sampled_from(["client", "host", "host.1", "schema"])


@settings(max_examples=effort(80, 1_000), deadline=None, derandomize=True)
@given(st.lists(st.tuples(any_message(), SENDERS), max_size=5))
def test_no_message_makes_a_decider_raise(heard: list[tuple[AnyMessage, str]]) -> None:
    """Give each decider any event of a log: it has a next state, always the same one."""
    agent: ActorState = working()
    head: ActorState = asked()
    for seq, (body, sender) in enumerate(heard, 100):
        agent = assert_decides(agent, event(body, "host", sender, seq))
        head = assert_decides(head, event(body, "supervisor", sender, seq))
    assert (type(agent), type(head)) == (AgentState, SupervisorState)


@table("seed", range(40))
def test_no_order_of_a_sessions_messages_makes_a_decider_raise(seed: int) -> None:
    """Shuffle events, leave some out, repeat some, and send some to the wrong actor."""
    dice = Random(seed)
    heard = [one for one in play(Plan(seed), 0).log for _ in range(dice.choice([0, 1, 1, 2]))]
    if seed % 2:
        dice.shuffle(heard)
    states: dict[str, ActorState] = {}
    for seq, one in enumerate(heard, 1):
        address = one.recipient if dice.random() < 0.95 else dice.choice(["supervisor", "host", "host.1"])
        if is_decider(address):
            before = states.get(address) or initial(address)
            states[address] = assert_decides(before, event(one.body, address, one.sender, seq))
    assert {type(state) for state in states.values()} <= {AgentState, SupervisorState}
    assert "supervisor" in states


def assert_decides(state: ActorState, message: Event) -> ActorState:
    """Return the next state, of the same kind; a repeated step gives the same state and posts."""
    after, posts = step(state, message)
    assert step(state, message) == (after, posts)
    assert type(after) is type(state)
    assert all(type(post) is Post for post in posts)
    return after


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_several_steps_together_are_the_same_as_one_after_the_other(first: int) -> None:
    """Compare every actor's decisions on the messages of whole sessions, in any order and any pieces."""
    for seed in range(first, first + 20):
        dice = Random(seed)
        heard = list(play(Plan(seed), 0).log)
        if seed % 4 == 3:
            dice.shuffle(heard)
        for address in sorted({one.recipient for one in heard if is_decider(one.recipient)}):
            inbox = [one for one in heard if one.recipient == address]
            state = together = initial(address)
            while inbox:
                size = dice.choice([1, 2, 5, 64])
                piece, inbox = inbox[:size], inbox[size:]
                posts: list[tuple[Post, ...]] = []
                for one in piece:
                    state, said = step(state, one)
                    posts.append(said)
                together, all_said = steps(together, piece)
                assert all_said == posts, f"plan {seed}, {address}"
                assert together == state, f"plan {seed}, {address}"


def working() -> AgentState:
    agent = AgentHarness("host")
    agent.begins({"type": "object"})
    agent.calls("look", "task", "report_back")
    return agent.state


@table("call", [1, 2], ids=["a delegation", "a report"])
@table("verdict", ["approved", "denied", "cancelled"])
def test_an_approval_of_a_call_that_is_no_tools_changes_nothing(
    call: int, verdict: Literal["approved", "denied", "cancelled"]
) -> None:
    state = working()
    given = ApprovalGiven(state.turn, call, verdict)
    assert step(state, event(given, "host", "approvals", 100)) == (state, ())


def asked() -> SupervisorState:
    head = SessionHarness().opens()
    head.asks()
    return head.state


def test_an_agent_at_rest_needs_no_actor_and_forgotten_answers_with_nothing() -> None:
    agent = AgentHarness()
    agent.begins()
    assert not is_at_rest(agent.state)
    agent.reads(Reply("done"))
    assert is_at_rest(agent.state)
    assert not is_at_rest(initial("supervisor"))
    left = forgotten("host.1")
    for body in (Stop("budget"), agent.returned(0), agent.reply(Reply("late")), ReportJudged(1, 0, "late")):
        assert step(left, event(body, "host.1")) == (left, ())


# --- deciders that raise ----------------------------------------------------------


def test_the_failure_is_said_first_and_the_drain_behind_it() -> None:
    agent = AgentHarness()
    agent.begins()
    state, posts = failed(agent.state, event(Stop("cancelled"), "host.1"), "ZeroDivisionError")
    assert posts == (
        Post("supervisor", DeciderFailed(7, "ZeroDivisionError")),
        Post("supervisor", Stopped()),
    )
    assert is_at_rest(state)


def test_a_failure_on_a_message_that_is_not_for_agents_is_only_said() -> None:
    agent = AgentHarness()
    agent.begins()
    state, posts = failed(agent.state, event(Ask("r", text_json("go")), "host.1"), "Boom")
    assert (state, posts) == (agent.state, (Post("supervisor", DeciderFailed(7, "Boom")),))


def test_a_failure_of_the_supervisor_has_nothing_in_its_place() -> None:
    with pytest.raises(TypeError, match="without its supervisor"):
        failed(initial("supervisor"), event(Ask("r", text_json("go")), "supervisor"), "Boom")


def test_the_failure_is_a_function_of_state_and_event() -> None:
    agent = AgentHarness()
    agent.begins(who=profile("worker", tools=["look"]))
    agent.calls("look")
    message = event(agent.returned(0), "host.1", "tools")
    assert failed(agent.state, message, "Boom") == failed(agent.state, message, "Boom")
