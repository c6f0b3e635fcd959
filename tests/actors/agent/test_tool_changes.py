"""Tools that change: applied with the next new request, told in messages or by other tools."""

import json

import pytest
from msgspec.structs import replace

from callboard.actors.agent.request_prefix import prefix_for
from callboard.actors.agent.state import NextTools, prefix_of, request_of
from callboard.actors.agent.tool_changes import _marks, begin_with
from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.makers import NO_ORIGINS, Origins, mark
from callboard.actors.protocol.messages import AnyMessage, Finished, Stop, ToolsGiven, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    CallTool,
    ModelReplied,
    RequestApproval,
    ToolReturned,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolsChange, ToolSpec
from callboard.replay.testing.rules.in_force import offered
from callboard.replay.testing.sessions.scenario import profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls
from tests.actors.harness import AgentHarness, kinds

LOOK, FIND = tool_spec("look"), tool_spec("find")


def agent(*, inline_tools: bool = True, begins: bool = True) -> AgentHarness:
    made = AgentHarness()
    if begins:
        made.begins(who=who(inline_tools))
    return made


def who(inline_tools: bool) -> Profile:
    return profile("worker", [], ["look"], writes=["save"], inline_tools=inline_tools)


def gives(one: AgentHarness, *tools: ToolSpec) -> list[AnyMessage]:
    return one.hears(ToolsGiven(tools))


def turn(posts: list[AnyMessage]) -> TurnRequested:
    (found,) = [post for post in posts if isinstance(post, TurnRequested)]
    return found


def known(one: AgentHarness) -> list[str]:
    return list(offered(request_of(one.state)))


def last_system(one: AgentHarness) -> object:
    message = one.conversation()[-1]
    assert message["role"] == "system"
    return message["content"]


def test_a_change_wakes_nobody_and_comes_behind_the_results_of_the_next_new_request() -> None:
    one = agent()
    one.calls("look")
    assert gives(one, LOOK, FIND) == []
    tools = request_of(one.state).tools
    posts = one.hears(one.returned(0))
    assert [message["role"] for message in one.conversation()] == ["user", "assistant", "user", "system"]
    assert last_system(one) == [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "save"}},
        {
            "type": "tool_addition",
            "tool": {
                "type": "tool_definition",
                "definition": {"name": "find", "description": "find", "input_schema": {"type": "object"}},
            },
        },
    ]
    assert request_of(one.state).tools == tools
    assert known(one) == ["look", "find"]
    assert (turn(posts).breaks_cache, turn(posts).new[-1]) == (False, 3)


def test_for_another_model_the_tools_of_the_request_change_and_the_request_says_so() -> None:
    one = agent(inline_tools=False)
    one.calls("look")
    before = one.state
    gives(one, LOOK, FIND)
    asked = turn(one.hears(one.returned(0)))
    assert [json.loads(bytes(tool))["name"] for tool in request_of(one.state).tools] == ["look", "find"]
    assert [message["role"] for message in one.conversation()] == ["user", "assistant", "user"]
    assert (asked.breaks_cache, asked.new[-1]) == (True, 3)
    assert asked.digest != before.digest
    assert asked.need.tokens > before.context_tokens
    assert not turn(one.hears(one.reply(Reply("", stop_reason="pause_turn")))).breaks_cache


def test_a_definition_that_changes_takes_the_place_of_the_old_one() -> None:
    one = agent()
    one.calls("look")
    other = ToolSpec("look", "another look", LOOK.input_schema)
    gives(one, other, tool_spec("save", "write"))
    one.hears(one.returned(0))
    (block,) = json.loads(json.dumps(last_system(one)))
    assert block["tool"]["definition"]["description"] == "another look"
    assert known(one) == ["look", "save"]


@pytest.mark.parametrize("inline_tools", [True, False])
def test_an_effect_or_an_approval_alone_is_not_told(inline_tools: bool) -> None:
    one = agent(inline_tools=inline_tools)
    one.calls("look")
    gives(one, tool_spec("look", "write", "before"), tool_spec("save", "write"))
    asked = turn(one.hears(one.returned(0)))
    assert one.conversation()[-1]["role"] == "user"
    assert (asked.breaks_cache, asked.new) == (False, (2, 4))
    (question,) = [post for post in one.calls("look") if isinstance(post, RequestApproval)]
    assert question.effect == "write"


def test_a_retry_and_a_paused_turn_send_what_was_sent_before() -> None:
    one = agent()
    gives(one, FIND)
    one.hears(ModelReplied(1, 1, "lost"))
    assert known(one) == ["look", "save"]
    one.reads(Reply("thinking", stop_reason="pause_turn"))
    assert known(one) == ["look", "save"]
    one.reads(calls(("look", {})))
    (call,) = one.state.calls.open.values()
    assert call.use.spec is not None  # the model still knows it
    one.hears(one.returned(0))
    assert known(one) == ["find"]


def test_calls_in_flight_keep_the_effect_and_the_approval_they_were_started_with() -> None:
    one = AgentHarness()
    one.begins(who=profile("worker", [], ["look"], writes=["save"], asks=["save"]))
    one.calls("save")
    gives(one)
    (called,) = one.hears(ApprovalGiven(1, 0, "approved"))
    assert isinstance(called, CallTool)
    assert called.effect == "write"
    (question,) = one.hears(ToolReturned(1, 0, "interrupted"))
    assert isinstance(question, RequestApproval)
    assert question.is_repeat


def test_the_last_of_several_changes_counts() -> None:
    one = agent()
    one.calls("look")
    gives(one)
    gives(one, LOOK, FIND)
    one.hears(one.returned(0))
    assert known(one) == ["look", "find"]


@pytest.mark.parametrize(
    ("change", "own"),
    [
        (ToolsChange((FIND,), address="host.1"), ["find"]),
        (ToolsChange((FIND,), profile="worker"), ["find"]),
        (ToolsChange((FIND,), address="host"), ["look", "save"]),
        (ToolsChange((FIND,), profile="other"), ["look", "save"]),
    ],
)
def test_a_tool_sets_the_tools_of_its_own_agent_at_once_and_tells_the_supervisor(
    change: ToolsChange, own: list[str]
) -> None:
    one = agent()
    one.calls("look")
    posts = one.hears(ToolReturned(1, 0, "ok", text_json("done"), tools=change))
    assert posts[0] == ToolsChanged(change)
    assert known(one) == own
    assert turn(posts).new == (2, 3)


def test_a_call_that_fails_or_whose_agent_is_stopped_changes_nothing() -> None:
    change = ToolsChange((FIND,), address="host.1")
    one = agent()
    one.calls("look")
    posts = one.hears(ToolReturned(1, 0, "error", text_json("no"), tools=change))
    assert kinds(posts) == ["TurnRequested"]
    other = agent()
    other.calls("look")
    other.hears(Stop("cancelled"))
    assert kinds(other.hears(ToolReturned(1, 0, "ok", text_json("done"), tools=change))) == ["Stopped"]


def again(one: AgentHarness, **fields: object) -> TurnRequested:
    """Let the agent begin once more."""
    return turn(one.hears(one.begin(**fields)))  # type: ignore[arg-type]  # fields of a Begin


def test_the_next_ask_continues_the_conversation_with_its_changes() -> None:
    one = agent()
    one.calls("look")
    gives(one, LOOK, FIND)
    one.hears(one.returned(0))
    assert isinstance(one.reads(Reply("done"))[0], Finished)
    tools = request_of(one.state).tools
    same = profile("worker", [], ["look", "find"], inline_tools=True)
    asked = again(one, who=same)
    assert (request_of(one.state).tools, known(one), asked.breaks_cache) == (tools, ["look", "find"], False)
    one.reads(Reply("done"))
    asked = again(one, who=profile("worker", [], ["look"], inline_tools=True))
    assert (request_of(one.state).tools, known(one), asked.breaks_cache) == (tools, ["look"], False)


def test_an_ask_with_other_tools_brings_the_rest_of_its_profile_at_once() -> None:
    one = agent()
    one.reads(Reply("done"))
    other = replace(profile("worker", [], ["find"], inline_tools=True), on_finish="cancel", lossy=True)
    again(one, who=other)
    now = request_of(one.state)
    assert (now.is_lossy, known(one)) == (True, ["find"])
    assert prefix_of(one.state).profile == other


@pytest.mark.parametrize("how", ["schema", "model"])
def test_an_ask_that_cannot_keep_what_was_sent_begins_the_request_again(how: str) -> None:
    one = agent()
    one.calls("look")
    gives(one, LOOK, FIND)
    one.hears(one.returned(0))
    one.reads(Reply("done"))
    other = profile("worker", [], ["look", "find"], inline_tools=how == "schema")
    asked = again(one, who=other, schema={"type": "object"} if how == "schema" else None)
    assert asked.breaks_cache
    assert "system" not in [message["role"] for message in one.conversation()]
    assert known(one)[:2] == ["look", "find"]


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
def test_a_change_that_a_life_did_not_apply_ends_with_it(schema: dict[str, str] | None) -> None:
    one = agent()
    gives(one, FIND)
    one.reads(Reply("done"))
    asked = again(one, who=who(True), schema=schema)  # with another one the request begins again
    assert (asked.breaks_cache, known(one)[:2]) == (schema is not None, ["look", "save"])


def digest_of(one: AgentHarness) -> str:
    return prefix_of(one.state).digest


def begins_again(one: AgentHarness, who: Profile) -> TurnRequested:
    one.reads(Reply("done"))
    return turn(one.begins(who=who))


@pytest.mark.parametrize("inline_tools", [True, False])
def test_an_agent_that_begins_with_the_same_tools_goes_on_with_its_conversation(inline_tools: bool) -> None:
    one = agent(inline_tools=inline_tools)
    before = digest_of(one)
    other = replace(who(inline_tools), on_finish="cancel", lossy=True)
    asked = begins_again(one, other)
    assert (asked.breaks_cache, digest_of(one)) == (False, before)
    assert prefix_of(one.state).profile == other


def test_an_agent_that_begins_with_other_tools_is_told_of_them_and_has_its_new_profile() -> None:
    one = agent()
    other = replace(who(True), tools=(LOOK, FIND), on_finish="cancel")
    asked = begins_again(one, other)
    assert (asked.breaks_cache, asked.new) == (False, (2, 3))
    assert prefix_of(one.state).profile == other
    assert known(one) == ["look", "find"]


def test_a_change_is_applied_once() -> None:
    one = agent()
    gives(one, FIND)
    one.calls("look")
    one.hears(one.returned(0))
    assert one.state.next_tools is None


@pytest.mark.parametrize(
    ("makers", "marked"),
    [((), []), (("own",), []), (("other",), ["other"]), (("own", "other"), ["own", "other"])],
)
def test_the_digest_counts_the_makers_of_a_conversation_that_is_not_all_the_models_own(
    makers: tuple[str, ...], marked: list[str]
) -> None:
    origins: Origins = NO_ORIGINS
    for at, maker in enumerate(makers):
        origins = origins.put(at, ModelSpec(maker).made_by)
    assert _marks(origins, ModelSpec("own")) == [mark(ModelSpec(one).made_by) for one in marked]


def test_a_begin_whose_change_no_request_has_taken_leaves_it_to_the_next_begin() -> None:
    made, one = agent(), who(inline_tools=True)
    two = replace(one, tools=one.tools[:1])
    made.reads(Reply("done"))
    wanted = prefix_for(made.begin(who=two))
    begun = begin_with(made.state, wanted)
    assert (prefix_of(begun).profile.tools, begun.next_tools) == (one.tools, NextTools(two.tools, 0))
    again = begin_with(begun, wanted)
    assert (prefix_of(again).own, again.next_tools) == (prefix_of(begun).own, NextTools(two.tools, 0))
    back = begin_with(again, prefix_for(made.begin(who=one)))
    assert (prefix_of(back).profile, back.next_tools) == (one, None)
