"""Whole requests of a program: what a question says, resolved from the earlier ones of its run."""

from typing import Any

import msgspec
import pytest

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import NO_CALLS
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.agent.whole_requests import REQUESTS_MAX, WholeRequest, with_reply, with_requests
from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.media import Media, media_in
from callboard.actors.protocol.messages import AnyMessage, Begin, Delegate, DelegationEnded, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.scripted_replies import Step, reply_of, request
from tests.actors.agent.test_program import WHO
from tests.actors.harness import AgentHarness, raw
from tests.tables import table

LOOK = {"name": "look", "description": "", "input_schema": {"type": "object"}}
HEAD: dict[str, Any] = {"system": "Be short.", "tools": [LOOK], "settings": {"top_k": 3}}
COUNTED = Usage(4, 2, calls=1)
SAID = [{"type": "text", "text": "well"}]


def waiting() -> AgentHarness:
    """Return a program whose first step is out."""
    agent = AgentHarness()
    agent.begins(who=WHO)
    return agent


def delegates(posts: list[AnyMessage]) -> list[Delegate]:
    return [post for post in posts if isinstance(post, Delegate)]


def asks(agent: AgentHarness, *asked: Any) -> list[Delegate]:
    return delegates(agent.reads(reply_of(Step(asked), agent.state.turn)))


def answers(agent: AgentHarness, one: Delegate, usage: Usage = COUNTED) -> None:
    """Let a question be answered, and the program go on with its step."""
    end = DelegationEnded(one.turn, one.call, "answered", value=raw(SAID), detail="tool_use", usage=usage)
    agent.hears(end)


def sent(agent: AgentHarness, one: Delegate) -> Any:
    """Return the request that the agent of a question sends."""
    child = AgentHarness(f"{agent.state.address}.1")
    model = ModelSpec("big", 100, params=raw({"top_k": 1, "top_p": 2}))
    child.hears(Begin(one.implicit, one.prompt, model, agent.state.limits, rules=2, asked=one.asked))
    return request_of(child.state, lambda address: agent.state)


def test_a_request_is_sent_as_the_program_gave_it() -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one", **HEAD, max_tokens=9, force_tool="look"))
    found = sent(agent, one)
    assert [bytes(said) for said in found.messages] == [b'{"role":"user","content":"one"}']
    assert (found.system, [*found.tools]) == (raw("Be short."), [raw(LOOK)])
    assert (found.model.max_tokens, found.force_tool) == (9, "look")
    assert msgspec.json.decode(found.model.params) == {"top_k": 3, "top_p": 2}
    assert one.asked is not None
    head = rolled("", raw("Be short."), raw({"top_k": 3}), raw(LOOK))
    assert found.digest == one.asked.digest == rolled(head, *found.messages)


def test_a_later_request_refers_to_earlier_ones_and_to_their_replies() -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one", **HEAD))
    answers(agent, one)
    (two,) = asks(agent, request("b", ["a", 0, 2], "two", like="a"))
    found = sent(agent, two)
    assert [said["content"] for said in found.conversation] == ["one", SAID, "two"]
    assert found.tools == (raw(LOOK),)
    answers(agent, two)
    (trimmed,) = asks(agent, request("c", "summary", ["b", 2, 4]))
    found = sent(agent, trimmed)
    assert [said["content"] for said in found.conversation] == ["summary", "two", SAID]
    assert found.tools == ()  # nothing is like an earlier request unless it says so


def test_a_grown_request_is_bound_by_the_count_of_the_service_and_a_rewritten_one_by_its_bytes() -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one" * 100, **HEAD))
    answers(agent, one, Usage(40, 2, calls=1))
    (grown, head, two) = asks(
        agent,
        request("b", ["a", 0, 2], "two", like="a"),
        request("c", ["a", 0, 2], "two", system="Be long."),
        request("d", ["a", 0, 1], "two", like="a"),
    )
    assert grown.asked is not None
    assert head.asked is not None
    assert two.asked is not None
    assert grown.asked.tokens == 42 + len('{"role":"user","content":"two"}') < grown.asked.bytes
    assert head.asked.tokens == head.asked.bytes > 300
    assert two.asked.tokens == two.asked.bytes > 1_300  # with tools


def test_a_lost_count_or_several_attempts_bound_nothing() -> None:
    for usage in (Usage(4, 2, calls=2), Usage(4, 2, calls=1, unknown_calls=1)):
        agent = waiting()
        (one,) = asks(agent, request("a", "one"))
        answers(agent, one, usage)
        (two,) = asks(agent, request("b", ["a", 0, 2], "two"))
        assert two.asked is not None
        assert two.asked.tokens == two.asked.bytes


@table("wrong", [["z", 0, 1], ["a", 0, 3], ["a", 1, 1], ["a", -1, 1], ["a", 0], ["a"]])
def test_a_reference_that_leads_nowhere_is_refused(wrong: list[object]) -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one"))
    answers(agent, one)
    assert asks(agent, request("b", "two", wrong)) == []
    block = agent.conversation()[-1]["content"]
    assert "that is not kept" in str(block)
    assert asks(agent, request("c", "two", like="z")) == []


def test_a_given_up_question_keeps_its_request_without_a_reply() -> None:
    agent = waiting()
    one, two = asks(agent, request("a", "one"), request("b", "x"))
    answers(agent, two)
    agent.reads(reply_of(Step((request("c", "y"),), cancels=("a",)), agent.state.turn))
    answers(agent, one)
    assert agent.state.program is not None
    assert [kept.messages.size for kept in agent.state.program.requests] == [1, 2, 1]


def test_the_last_requests_and_the_open_ones_are_kept() -> None:
    agent = waiting()
    first, other = asks(agent, request("first", "one"), request("other", "one"))
    answers(agent, other)
    for at in range(REQUESTS_MAX + 1):
        (one,) = asks(agent, request(f"r{at:03}", "one"))
        answers(agent, one)
    assert agent.state.program is not None
    kept = [one.ask for one in agent.state.program.requests]
    assert kept == ["first", *(f"r{at:03}" for at in range(1, REQUESTS_MAX + 1))]
    assert sent(agent, first).length == 1  # it is asked, but may not be referred to
    assert asks(agent, request("late", ["first", 0, 1])) == []


def test_images_are_counted_as_what_the_model_states_of_them() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    agent = waiting()
    (one,) = asks(agent, request("a", {"role": "user", "content": [image]}))
    assert one.asked is not None
    media = Media(*one.asked.media)
    assert (media.images, media.links) == (1, 1)
    child = AgentHarness("host.1.1")
    begin = Begin(one.implicit, one.prompt, ModelSpec("m", 100), agent.state.limits, rules=2, asked=one.asked)
    (wish,) = child.hears(begin)
    assert isinstance(wish, TurnRequested)
    assert wish.is_unbounded


def test_a_question_without_its_program_has_no_request() -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one"))
    child = AgentHarness("host.1.1")
    child.hears(Begin(one.implicit, one.prompt, ModelSpec("m"), agent.state.limits, rules=2, asked=one.asked))
    for states in ({"host": None}, {"host": AgentState("host"), "host.1": AgentState("host.1")}):
        with pytest.raises(ValueError, match="keeps the request of its question a"):
            request_of(child.state, states.get)


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def kept_by(agent: AgentHarness) -> tuple[WholeRequest, ...]:
    assert agent.state.program is not None
    return agent.state.program.requests


def test_every_field_of_a_request_and_of_one_that_grows_it() -> None:
    agent, seen = waiting(), {"role": "user", "content": [IMAGE]}
    (one,) = asks(agent, request("a", seen, **HEAD))
    (first,) = kept_by(agent)
    head, said = rolled("", raw("Be short."), raw({"top_k": 3}), raw(LOOK)), raw(seen)
    size = len(raw("Be short.")) + len(raw(LOOK)) + TOOL_OVERHEAD_TOKENS + len(said)
    media = media_in(said)
    assert (first.ask, first.turn, first.call, first.title) == ("a", 1, 0, "a request of 1 message")
    assert (first.system, first.tools, first.settings) == (raw("Be short."), (raw(LOOK),), raw({"top_k": 3}))
    assert (first.max_tokens, first.force_tool, first.digest) == (0, "", rolled(head, said))
    assert (first.tokens, first.bytes, first.media) == (size, size, media)
    assert first.asked.media == (1, 0, media.bytes, 1)
    answers(agent, one, Usage(5_000, 2, calls=1))  # more than its bytes
    (answered,) = kept_by(agent)
    reply = raw({"role": "assistant", "content": SAID})
    assert answered.digest == rolled(rolled(head, said), reply)
    assert answered.tokens == answered.bytes == size + len(reply)
    (later,) = asks(agent, request("b", ["a", 0, 2], "two", like="a", max_tokens=7, force_tool="look"))
    grown = kept_by(agent)[1]
    two = raw({"role": "user", "content": "two"})
    assert grown.digest == rolled(answered.digest, two)
    assert (grown.tokens, grown.bytes, grown.media) == (size + len(reply) + len(two),) * 2 + (media,)
    assert (grown.title, grown.max_tokens, grown.force_tool) == ("a request of 3 messages", 7, "look")
    answers(agent, later)
    asks(agent, request("c", "short"))
    (*_, bare) = kept_by(agent)
    size = len(raw({"role": "user", "content": "short"}))
    assert bare.tokens == size + len(NULL)
    assert bare.asked.media == ()


@pytest.mark.parametrize(
    "end",
    [
        {"kind": "budget", "value": raw(SAID)},
        {"kind": "answered"},
        {"kind": "answered", "value": raw(SAID), "call": 5},
    ],
)
def test_an_end_without_a_reply_leaves_the_request_as_it_was(end: dict[str, Any]) -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one"))
    before = kept_by(agent)
    ended = DelegationEnded(**{"turn": one.turn, "call": one.call} | end)
    assert with_reply(before, ended) is before


def test_all_requests_of_a_step_are_kept_however_many_and_those_of_tools_are_none() -> None:
    agent = waiting()
    asks(agent, *(request(f"r{at:03}", "one") for at in range(REQUESTS_MAX + 3)))
    assert len(kept_by(agent)) == REQUESTS_MAX + 3
    spec = ToolSpec("look", "", raw({}))
    plain, whole = raw({"prompt": "messages"}), raw({"messages": [{"role": "user", "content": "x"}]})
    for name, arguments, own in (
        (ASK_MODEL, plain, None),
        (ASK_MODEL, whole, spec),
        ("task", whole, None),
        (ASK_MODEL, raw({"messages": []}), None),
        (ASK_MODEL, raw({"messages": 5}), None),
    ):
        assert with_requests((), NO_CALLS, 1, [ToolUse("a", name, arguments, own)]) == ()
