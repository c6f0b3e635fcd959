"""Histories that agents are handed: legal for every model, counted in the bound, and kept verbatim."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.agent.handed_history import FOREIGN
from callboard.actors.agent.request_prefix import TOOL_OVERHEAD_TOKENS
from callboard.actors.agent.state import request_of
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.histories import history_of, why_broken
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.translation import Unsayable, messages_for
from callboard.replay.testing.input_rules.messages import problem_of
from callboard.replay.testing.sessions.scenario import profile
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.runtime.models.anthropic.request import TAKES
from tests.actors.harness import AgentHarness
from tests.several_models import (
    CHAT,
    CLAUDE,
    IMAGE,
    ORIGINS,
    Said,
    conversations,
    decoded,
    hears,
    result,
    says,
    text,
    use,
)

LINK = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
SERVICE = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
ASKED, DONE = hears(text("Find it.")), hears(result("1"))
LOOKED = (ASKED, says(CLAUDE, THOUGHT, use("1")), DONE)


def kid(tools: Sequence[str] = ("look",), model: Origin = CLAUDE) -> Profile:
    spec = ModelSpec(model.model, 100, origin=model)
    return replace(profile("kid", [], list(tools)), model=spec)


def begun(said: Sequence[Said], who: Profile, context: str = "") -> AgentHarness:
    """Return an agent that was handed these messages."""
    agent = AgentHarness("host.1")
    begin = agent.begin(who=who, prompt="Your task.")
    history = history_of((one.body, one.maker) for one in said)
    note = text_json(context) if context else begin.context
    agent.hears(replace(begin, history=history.messages, makers=history.makers, context=note))
    return agent


def asked(said: Sequence[Said], who: Profile | None = None, context: str = "") -> ModelRequest:
    return request_of(begun(said, who or kid(), context).state)


def body_of(request: ModelRequest, messages: Sequence[Json]) -> dict[str, Any]:
    tools = [msgspec.json.decode(tool) for tool in request.tools]
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "tools": tools, "messages": decoded(messages)}


def test_the_prompt_follows_the_results_that_came_last_in_the_same_message() -> None:
    found = asked(LOOKED, context="So far.").conversation
    assert [one["role"] for one in found] == ["user", "assistant", "user"]
    assert found[-1]["content"] == [result("1"), text("So far."), text("Your task.")]


def test_a_reply_that_came_last_is_followed_by_a_message_of_its_own() -> None:
    found = asked([ASKED, says(CLAUDE, text("Found."))]).conversation
    assert [one["role"] for one in found] == ["user", "assistant", "user"]
    assert found[-1]["content"] == "Your task."


def test_the_own_model_reads_thoughts_and_signatures_as_they_were() -> None:
    request = asked(LOOKED)
    assert messages_for(request) == request.messages
    assert bytes(request.message(1)) == bytes(LOOKED[1].body)


def test_another_model_reads_the_calls_without_thoughts_and_signatures() -> None:
    sent = decoded(messages_for(asked(LOOKED, kid(model=CHAT))))
    (call,) = sent[1]["content"]
    assert (call["name"], call["id"][:3]) == ("look", "cb_")
    assert sent[2]["content"][0]["tool_use_id"] == call["id"]
    assert "sig" not in str(sent)


def test_its_own_replies_are_told_apart_from_those_of_its_parent() -> None:
    agent = begun(LOOKED, kid(model=CHAT))
    agent.reads(Reply("Mine."))
    maker = maker_of(agent.state.origins)
    assert (maker(1), maker(3)) == (CLAUDE, CHAT)


def test_an_agent_without_tools_reads_calls_as_words() -> None:
    request = asked(LOOKED, kid(tools=()))
    assert request.tools == ()
    assert "[call of look: {}]" in str(request.conversation[1])
    assert "tool_use" not in str(request.conversation)
    assert maker_of(request.origins)(1) == FOREIGN
    said = [ASKED, says(CLAUDE, THOUGHT, text("Found."))]
    assert asked(said, kid(tools=())).message(1) == said[1].body  # no call, so nothing has to change


def test_the_use_of_a_services_tool_is_read_by_agents_with_such_tools_only() -> None:
    said = [ASKED, says(CLAUDE, THOUGHT, SERVICE, text("Found.")), ASKED, says(CLAUDE, text("Yes."))]
    without = asked(said)
    maker = maker_of(without.origins)
    assert (maker(1), maker(3)) == (FOREIGN, CLAUDE)
    assert decoded(messages_for(without))[1]["content"] == [text("Found.")]
    searching = replace(kid(), server_tools=(Json(b'{"type":"web_search_20250305","name":"web_search"}'),))
    with_it = asked(said, searching)
    assert messages_for(with_it) == with_it.messages


@pytest.mark.parametrize(
    "handed", [[ASKED, says(CLAUDE, use("1")), hears(result("1", [IMAGE]))], [hears(IMAGE)]]
)
def test_a_handed_image_that_the_model_cannot_take_becomes_words(handed: list[Said]) -> None:
    request = asked(handed)
    sent = messages_for(request, lambda kind, source: kind != "image")
    assert "cannot be sent to this model: image" in str(decoded(sent))
    assert "image/png" not in str(decoded(sent))


def test_an_image_in_its_own_prompt_is_refused_all_the_same() -> None:
    agent = AgentHarness("host.1")
    begin = replace(agent.begin(who=kid()), prompt=Json(msgspec.json.encode([IMAGE])))
    history = history_of((one.body, one.maker) for one in LOOKED)
    agent.hears(replace(begin, history=history.messages, makers=history.makers))
    with pytest.raises(Unsayable, match=r"message 3, block 2 \(image"):
        messages_for(request_of(agent.state), lambda kind, source: kind != "image")


def wish_of(agent: AgentHarness, begin: Begin) -> TurnRequested:
    (wish,) = [post for post in agent.hears(begin) if isinstance(post, TurnRequested)]
    return wish


def test_a_linked_image_without_a_known_size_leaves_the_need_without_a_bound() -> None:
    for said, is_open in (([hears(LINK), says(CLAUDE, text("A cat."))], True), (LOOKED, False)):
        agent = AgentHarness("host.1")
        history = history_of((one.body, one.maker) for one in said)
        begin = replace(agent.begin(who=kid()), history=history.messages, makers=history.makers)
        assert wish_of(agent, begin).is_unbounded is is_open


@given(conversations(), st.sampled_from(ORIGINS), st.booleans())
def test_every_history_is_counted_whole_and_legal_for_every_model(
    said: list[Said], target: Origin, has_tools: bool
) -> None:
    agent = AgentHarness("host.1")
    history = history_of((one.body, one.maker) for one in said)
    who = kid(("look", "save") if has_tools else (), target)
    begin = replace(agent.begin(who=who), history=history.messages, makers=history.makers)
    wish, request = wish_of(agent, begin), request_of(agent.state)
    assert why_broken(request.messages) == ""
    sent = messages_for(request, rules=TAKES)
    assert problem_of(body_of(request, sent)) == "" or target != CLAUDE
    assert why_broken(sent) == ""
    size = sum(map(len, (request.system, *request.tools, *request.messages)))
    overhead = TOOL_OVERHEAD_TOKENS if request.tools else 0
    assert wish.need.tokens >= size + 100 + overhead
    assert wish.need.tokens <= size + 100 + overhead + 64
    assert wish.digest == agent.state.digest == request.digest


def test_the_digest_of_a_request_depends_on_the_history_and_on_its_makers() -> None:
    digests = {
        asked(said).digest for said in ([], [ASKED], LOOKED, (ASKED, says(CHAT, THOUGHT, use("1")), DONE))
    }
    assert len(digests) == 4
