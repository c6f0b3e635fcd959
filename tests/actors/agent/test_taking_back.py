"""A turn that was never granted is taken back: no model has seen its message, so the next ask sends it."""

from collections.abc import Sequence
from functools import reduce

import msgspec
import pytest
from msgspec import structs

from callboard.actors.protocol import prompts
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import DelegationEnded, Stop, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import ZERO
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from callboard.replay.testing.sessions.world import SessionWorld
from tests.actors.harness import RETRYABLE, SCHEMA, AgentHarness


def wish_of(posts: Sequence[object]) -> TurnRequested:
    (wish,) = posts
    assert isinstance(wish, TurnRequested)
    return wish


def begun(schema: object = None) -> AgentHarness:
    agent = AgentHarness()
    agent.begins(schema)
    return agent


def told(agent: AgentHarness) -> list[tuple[object, object]]:
    """Return the role and the content of each message, with the result or text of each block."""
    found: list[tuple[object, object]] = []
    for message in agent.conversation():
        content = message["content"]
        if isinstance(content, list):
            blocks = msgspec.convert(content, list[dict[str, object]])
            content = [one.get("content", one.get("text", one.get("name"))) for one in blocks]
        found.append((message["role"], content))
    return found


def test_a_first_turn_that_was_never_granted_leaves_nothing_behind() -> None:
    agent = begun()
    before = AgentHarness()
    agent.hears(Stop("cancelled"))
    agent.seq = 0
    # The prompt of the cancelled ask is in no request: the next one starts as the first did.
    assert wish_of(agent.begins(prompt="again")).digest == wish_of(before.begins(prompt="again")).digest
    assert told(agent) == [("user", "again")]
    assert agent.state.context_tokens == before.state.context_tokens


def test_results_of_a_turn_that_was_never_granted_stand_before_the_next_prompt() -> None:
    agent = begun()  # 1: Begin
    agent.calls("look", "task")  # 2: the reply
    agent.hears(agent.returned(0, "looked"))  # 3
    wish = wish_of(agent.hears(DelegationEnded(1, 1, "answered", "host.1.1", text="helped")))  # 4
    assert wish.new == (2, 3, 4)
    agent.hears(Stop("cancelled"))  # 5
    assert told(agent) == [("user", "go"), ("assistant", ["look", "task"])]
    again = wish_of(agent.begins(prompt="again"))  # 6
    assert told(agent)[2:] == [("user", ["looked", "helped", "again"])]
    assert again.new == (2, 3, 4, 6)


def test_results_are_taken_back_as_often_as_their_turn_is_not_granted() -> None:
    agent = begun()  # 1
    agent.calls("look")  # 2
    agent.hears(agent.returned(0, "looked"))  # 3
    for _ in range(3):
        agent.hears(Stop("cancelled"))
        assert wish_of(agent.begins(prompt="again")).new == (2, 3, agent.seq)
    assert told(agent)[2:] == [("user", ["looked", "again"])]


def test_a_reminder_to_report_that_was_never_granted_is_forgotten() -> None:
    agent = begun(SCHEMA)
    agent.reads(Reply("thinking"))
    assert told(agent)[-1] == ("user", prompts.REPORT_NOW)
    agent.hears(Stop("deadline"))
    assert told(agent)[-1] == ("assistant", ["thinking"])
    assert wish_of(agent.begins(SCHEMA, prompt="again")).new == (2, 4)


def test_a_pause_that_was_never_continued_names_its_reply_in_the_next_ask() -> None:
    agent = begun()
    assert wish_of(agent.reads(Reply("searching", stop_reason="pause_turn"))).new == (2,)
    agent.hears(Stop("cancelled"))
    assert wish_of(agent.begins(prompt="again")).new == (2, 4)
    assert [role for role, _ in told(agent)] == ["user", "assistant", "user"]


def test_a_granted_turn_stays() -> None:
    agent = begun()
    agent.calls("look")
    agent.hears(agent.returned(0, "looked"))
    agent.hears(Stop("cancelled", (2, 1)))
    agent.hears(ModelReplied(2, 1, "cancelled", usage=ZERO))
    assert wish_of(agent.begins(prompt="again")).new == (agent.seq,)
    assert told(agent)[2:] == [("user", ["looked"]), ("user", "again")]


@pytest.mark.parametrize("granted", [(0, 0), (2, 1)])
def test_a_turn_whose_first_attempt_was_answered_stays(granted: tuple[int, int]) -> None:
    agent = begun()
    agent.calls("look")
    agent.hears(agent.returned(0, "looked"))
    agent.reads(Reply(failure=RETRYABLE))
    agent.hears(Stop("cancelled", granted))
    assert wish_of(agent.begins(prompt="again")).new == (agent.seq,)
    assert told(agent)[2:] == [("user", ["looked"]), ("user", "again")]


def test_an_agent_that_failed_while_its_turn_waited_takes_it_back_too() -> None:
    agent = begun()
    agent.calls("look")
    agent.hears(agent.returned(0, "looked"))
    agent.fails(DelegationEnded(9, 9, "answered"))
    agent.hears(Stop("crashed"))
    assert told(agent) == [("user", "go"), ("assistant", ["look"])]
    agent.begins(prompt="again")
    assert told(agent)[2:] == [("user", ["looked", "again"])]


def test_the_digest_is_that_of_the_conversation_without_the_turn() -> None:
    agent, other = begun(), begun()
    for one in (agent, other):
        one.calls("look")
        one.hears(one.returned(0, "looked"))
    agent.hears(Stop("cancelled"))
    other.hears(Stop("cancelled", (2, 1)))
    other.hears(ModelReplied(2, 1, "cancelled", usage=ZERO))
    agent.begins(prompt="again")
    assert agent.state.history.size == other.state.history.size
    assert agent.state.digest != other.state.digest
    assert agent.state.prefix is not None
    start = rolled(agent.state.prefix.digest)
    assert agent.state.digest == reduce(rolled, agent.state.history.values(), start)


def looks_once(request: ModelRequest) -> Reply:
    if request.turn > 1:
        return Reply("done")
    return structs.replace(calls(("look", {})), percent=100)


def test_an_ask_after_one_without_budget_sends_the_results_and_names_each_event_once() -> None:
    asks = [ask(limits=Limits(tokens=1_300)), ask("again", request_id="r2")]
    made = SessionWorld(Scenario([profile("host", [], ["look"])], looks_once, asks)).run()
    assert [end.kind for end in made.of(AskEnded)] == ["budget", "answered"]
    granted = [made.asked[seq] for seq in sorted(made.asked)]
    assert [len(one.messages) for one in granted] == [1, 3]
    assert b"did look" in bytes(granted[1].messages[2])
    assert b"again" in bytes(granted[1].messages[2])
    assert breaches_of(made) == []
