"""The agent that carries a question with its whole request."""

import inspect

import pytest
from msgspec.structs import replace

from callboard.actors.agent.asked_requests import answers_whole, model_of
from callboard.actors.agent.fallback import Fallback
from callboard.actors.agent.state import prefix_of, request_if_kept, request_of
from callboard.actors.protocol.conversation import joined, merged, rolled, text_block, user_message
from callboard.actors.protocol.limits import fill
from callboard.actors.protocol.makers import NO_ORIGINS, with_reply
from callboard.actors.protocol.media import Media
from callboard.actors.protocol.messages import Begin, Finished, ReportBack, TurnRequested
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.repair_levels import START
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import AskedRequest
from callboard.replay.testing.sessions.scenario import NO_LIMITS
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, report, request
from tests.actors.agent.test_whole_requests import HEAD, asks, waiting
from tests.actors.harness import RETRYABLE, SCHEMA, USED, AgentHarness, raw
from tests.tables import table


def child(schema: object = None, **more: object) -> tuple[AgentHarness, AgentHarness, TurnRequested]:
    """Return the program, the agent of its question, and the request for a turn."""
    agent = waiting()
    (one,) = asks(agent, request("a", "one", **HEAD, **more))
    carrier = AgentHarness("host.1.1")
    begin = Begin(
        one.implicit,
        one.prompt,
        ModelSpec("m", 100),
        agent.state.limits,
        raw(schema),
        rules=2,
        asked=one.asked,
    )
    (wish,) = carrier.hears(begin)
    assert isinstance(wish, TurnRequested)
    return agent, carrier, wish


def test_the_grant_has_the_size_of_the_request_and_the_tokens_that_it_states() -> None:
    _, _, usual = child()
    _, _, stated = child(max_tokens=32_000)
    assert stated.need.tokens - usual.need.tokens == 31_900
    assert usual.need.tokens > 1_100
    assert usual.new == (1,)


def test_the_stated_tokens_hold_for_every_model_of_a_fallback() -> None:
    agent = waiting()
    (one,) = asks(agent, request("a", "one", max_tokens=7))
    spec = ModelSpec("m", 100, fallback=(ModelSpec("n", 50),))
    begin = Begin(one.implicit, one.prompt, spec, agent.state.limits, asked=one.asked)
    assert [each.max_tokens for each in model_of(begin).all_specs] == [7, 7]
    assert model_of(replace(begin, asked=None)) is spec


def test_the_reply_is_the_answer_with_its_calls_and_its_stop_reason() -> None:
    _, carrier, _ = child()
    says = calls(("look", {"path": "x"}), text="I look")
    (end,) = carrier.reads(says)
    assert isinstance(end, Finished)
    assert (end.kind, end.text, end.detail, end.value) == ("answered", "", "tool_use", says.blocks(1))
    assert end.settled is not None
    assert end.settled.usage == USED


def test_the_request_of_a_question_is_kept_as_long_as_its_program() -> None:
    agent, carrier, _ = child()
    request = request_if_kept(carrier.state, lambda address: agent.state)
    assert request is not None
    assert (request.length, request.digest) == (1, carrier.state.digest)
    ended = replace(agent.state, program=None)
    assert request_if_kept(carrier.state, lambda address: ended) is None
    with pytest.raises(ValueError, match="no program above it keeps"):
        request_of(carrier.state, lambda address: ended)


def test_an_empty_reply_is_an_answer_of_its_own() -> None:
    _, carrier, _ = child()
    (end,) = carrier.reads(Reply(""))
    assert isinstance(end, Finished)
    assert (end.kind, end.detail) == ("answered", "end_turn")


def test_a_failed_call_is_asked_again_with_the_same_request() -> None:
    agent, carrier, wish = child()
    (again,) = carrier.reads(Reply(failure=RETRYABLE))
    assert isinstance(again, TurnRequested)
    assert (again.attempt, again.digest, again.need) == (2, wish.digest, wish.need)
    assert request_of(carrier.state, lambda address: agent.state).length == 1


def test_with_a_schema_the_reports_follow_the_messages_of_the_program() -> None:
    agent, carrier, wish = child(SCHEMA)
    found = request_of(carrier.state, lambda address: agent.state)
    assert found.digest == wish.digest
    assert [b"report_back" in bytes(tool) for tool in found.tools] == [False, True]
    assert b"Be short." in bytes(found.system)
    assert b"report_back" in bytes(found.system)
    carrier.reads(calls(("nonsense", {})))
    found = request_of(carrier.state, lambda address: agent.state)
    assert [said["role"] for said in found.conversation] == ["user", "assistant", "user"]
    (end,) = carrier.reads(report({"n": 1}))
    assert isinstance(end, ReportBack)


IMAGES = (1, 0, 90, 1)  # one linked image, of 90 bytes


@table("media", [(), IMAGES])
@table("schema", [None, SCHEMA])
@table("fallback", [(), (ModelSpec("n", 50),)])
def test_the_state_of_an_agent_that_asks_with_the_request_of_a_program(
    media: tuple[int, ...], schema: object, fallback: tuple[ModelSpec, ...]
) -> None:
    (one,) = asks(waiting(), request("a", "one"))
    asked = AskedRequest("a", "digest", 700, 800, media=media)
    model = ModelSpec("m", 100, image_tokens=5_000, fallback=fallback)
    agent = AgentHarness("host.1.1")
    agent.hears(Begin(one.implicit, one.prompt, model, fill(NO_LIMITS), raw(schema), rules=2, asked=asked))
    state, prefix = agent.state, prefix_of(agent.state)
    assert state.asked == asked
    assert state.digest == (rolled("digest", prefix.system, *prefix.tools) if schema else "digest")
    more = 5_000 - 90 if media else 0
    assert state.context_tokens == 700 + prefix.tokens + more
    books = state.fallback
    assert (books is None) == (not media and not fallback)
    if books is not None:
        assert books.media == Media(*media)
        own = prefix.tokens
        assert books.input_bytes == own + 800
    assert answers_whole(state) == (schema is None)
    assert not answers_whole(AgentHarness("host").state)


@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize("is_raised", [False, True])
def test_every_field_of_the_request_that_is_sent(schema: object, is_raised: bool) -> None:
    agent, carrier, _ = child(schema, force_tool="look")
    assert agent.state.program is not None
    (whole,) = agent.state.program.requests
    later = ModelSpec("n", 50)
    books = Fallback((ModelSpec("m", 100), later), (), place=1)
    said = user_message((text_block("no report"),))
    repair = START.next if is_raised else None
    params = raw({"top_k": 1, "top_p": 2})
    state = replace(
        carrier.state,
        model=replace(later, params=params),
        fallback=books,
        attempt=2,
        repair=repair,
        history=carrier.state.history.append(said),
    )
    prefix = prefix_of(state)
    found = request_of(state, lambda address: agent.state)
    wanted = ModelRequest(
        address="host.1.1",
        profile=prefix.profile.name,
        model=replace(later, params=merged(params, whole.settings)),
        turn=1,
        attempt=2,
        system=joined(whole.system, prefix.system) if schema else whole.system,
        tools=(*whole.tools, *prefix.tools),
        history=whole.messages.append(said),
        force_tool="look",
        digest=state.digest,
        origins=with_reply(NO_ORIGINS, 0, ModelSpec("m").made_by),
        is_lossy=prefix.profile.lossy,
        handed=(1, 0),
        repair=repair or START,
    )
    for name in {*inspect.signature(ModelRequest).parameters, "messages"} - {"history"}:
        one, other = (getattr(each, name) for each in (found, wanted))
        assert one == other, name
    alone = replace(state, fallback=None)
    assert request_of(alone, lambda address: agent.state).origins == with_reply(NO_ORIGINS, 0, later.made_by)
