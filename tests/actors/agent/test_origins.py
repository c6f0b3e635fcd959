"""An agent keeps who made each message, over asks, tools that change and turns that are taken back."""

import json

from msgspec.structs import replace

from callboard.actors.agent.state import request_of, with_model
from callboard.actors.protocol.conversation import is_by
from callboard.actors.protocol.makers import maker_of
from callboard.actors.protocol.messages import AnyMessage, Delegate, Stop, ToolsGiven, TurnRequested
from callboard.actors.protocol.origin import Origin, named
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import Usage
from callboard.replay.testing.sessions.scenario import profile, tool_spec
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from tests.actors.harness import RETRYABLE, AgentHarness

OTHER = Origin("layered", "openai", "https://api.openai.com/v1", "gpt-5")
OTHER_MODEL = ModelSpec("openai:gpt-5", 100, origin=OTHER)
OWN = named("scripted")


def who(model: ModelSpec | None = None, *, inline_tools: bool = False) -> Profile:
    made = profile("worker", [], ["look"], inline_tools=inline_tools)
    return made if model is None else replace(made, model=model)


def turn(posts: list[AnyMessage]) -> TurnRequested:
    (found,) = [post for post in posts if isinstance(post, TurnRequested)]
    return found


def makers(one: AgentHarness) -> list[Origin | None]:
    request = request_of(one.state)
    find = maker_of(request.origins)
    return [find(at) for at, said in enumerate(request.messages) if is_by("assistant", said)]


def test_a_reply_is_of_the_model_that_was_asked_unless_it_says_otherwise() -> None:
    one = AgentHarness()
    one.begins(who=who())
    one.calls("look")
    one.hears(one.returned(0))
    one.hears(replace(one.reply(Reply("hm", stop_reason="pause_turn")), origin=OTHER))
    one.calls("look")
    assert makers(one) == [OWN, OTHER, OWN]


def test_agents_with_one_model_share_one_run() -> None:
    states = []
    for address in ("host.1", "host.2"):
        one = AgentHarness(address)
        one.begins(who=who())
        one.reads(Reply("done"))
        states.append(one.state)
    assert states[0].origins is states[1].origins


def test_another_model_with_the_next_ask_breaks_the_cache_and_the_makers_stay_known() -> None:
    one = AgentHarness()
    assert not turn(one.begins(who=who())).breaks_cache
    one.reads(Reply("done"))
    assert not turn(one.begins(who=who())).breaks_cache
    one.reads(Reply("done"))
    asked = turn(one.begins(who=who(OTHER_MODEL)))
    assert asked.breaks_cache
    assert (request_of(one.state).model, request_of(one.state).digest) == (OTHER_MODEL, asked.digest)
    one.reads(Reply("done"))
    assert not turn(one.begins(who=who(OTHER_MODEL))).breaks_cache
    assert makers(one) == [OWN, OWN, OTHER]


def test_the_digest_counts_the_origins() -> None:
    digests = set()
    for models in ([None, None], [None, OTHER_MODEL], [OTHER_MODEL, OTHER_MODEL], [OTHER_MODEL, None]):
        one = AgentHarness()
        for model in models:
            one.begins(who=who(model))
            one.reads(Reply("done"))
        one.begins(who=who())
        digests.add(one.state.digest)
    said_so = AgentHarness()
    said_so.begins(who=who())
    said_so.hears(replace(said_so.reply(Reply("done")), origin=OTHER))
    said_so.begins(who=who())
    one = AgentHarness()
    one.begins(who=who())
    one.reads(Reply("done"))
    one.begins(who=who())
    assert len(digests) == 4
    assert said_so.state.digest != one.state.digest


def test_a_turn_that_is_taken_back_is_not_the_first_to_the_other_model() -> None:
    one = AgentHarness()
    one.begins(who=who())
    one.reads(Reply("done"))
    one.begins(who=who(OTHER_MODEL))
    one.hears(Stop("cancelled"))
    assert turn(one.begins(who=who(OTHER_MODEL))).breaks_cache
    assert makers(one) == [OWN]


def test_a_retry_with_another_model_says_so_once() -> None:
    one = AgentHarness()
    one.begins(who=who())
    one.state = with_model(one.state, OTHER_MODEL)
    again = turn(one.reads(Reply(failure=RETRYABLE)))
    assert (again.attempt, again.breaks_cache, again.digest) == (2, True, one.state.digest)
    assert not turn(one.reads(Reply(failure=RETRYABLE))).breaks_cache
    one.calls("look")
    assert not turn(one.hears(one.returned(0))).breaks_cache
    assert makers(one) == [OTHER]


def test_a_model_of_the_same_origin_changes_nothing() -> None:
    one = AgentHarness()
    one.begins(who=who())
    wider = replace(one.state.model, max_tokens=7)
    assert with_model(one.state, wider) == replace(one.state, model=wider)


def test_the_makers_stay_known_when_messages_about_tools_go_and_come_back_with_a_turn_taken_back() -> None:
    one = AgentHarness()
    one.begins(who=who(inline_tools=True))
    one.calls("look")
    one.hears(ToolsGiven((tool_spec("look"), tool_spec("find"))))
    one.hears(one.returned(0))
    one.reads(Reply("done"))
    one.begins(who=who(OTHER_MODEL, inline_tools=True))
    one.reads(Reply("done"))
    assert makers(one) == [OWN, OWN, OTHER]
    assert [said["role"] for said in one.conversation()].count("system") == 0
    before = (one.state.history, one.state.origins)
    one.hears(ToolsGiven((tool_spec("look"),)))
    one.begins(who=who(OTHER_MODEL))
    one.hears(Stop("cancelled"))
    assert (one.state.history, one.state.origins) == before


def test_a_model_that_reads_no_changes_of_tools_is_sent_none() -> None:
    one = AgentHarness()
    one.begins(who=who(inline_tools=True))
    one.calls("look")
    one.hears(ToolsGiven((tool_spec("find"),)))
    one.hears(one.returned(0))
    assert is_by("system", request_of(one.state).messages[-1])
    request = request_of(with_model(one.state, OTHER_MODEL))
    assert [json.loads(bytes(tool))["name"] for tool in request.tools] == ["find"]
    assert not any(is_by("system", said) for said in request.messages)
    assert [*request.origins.values()] == [OWN]


def test_another_origin_is_asked_with_the_bound_of_all_bytes() -> None:
    one = AgentHarness()
    one.begins(who=who(), prompt="x" * 5_000)
    one.reads(Reply("done"), Usage(3, 2))
    size = sum(map(len, one.state.history.values()))
    assert one.state.context_tokens == 5
    asked = turn(one.begins(who=who(OTHER_MODEL)))
    assert size + OTHER_MODEL.max_tokens < asked.need.tokens < size + 2_000
    one.reads(Reply("done"), Usage(3, 2))
    assert turn(one.begins(who=who(OTHER_MODEL))).need.tokens < 200


def test_a_turn_that_is_taken_back_gives_the_makers_back_with_the_messages_about_tools() -> None:
    one = AgentHarness()
    one.begins(who=who(inline_tools=True))
    one.calls("look")
    one.hears(ToolsGiven((tool_spec("look"), tool_spec("find"))))
    one.hears(one.returned(0))
    one.hears(replace(one.reply(calls(("look", {}))), origin=OTHER))
    one.state = with_model(one.state, ModelSpec("third"))
    before = (one.state.history, one.state.origins)
    one.hears(ToolsGiven((tool_spec("look"),)))
    one.hears(one.returned(0))
    assert makers(one) == [OWN, OTHER]
    assert one.state.origins != before[1]
    one.hears(Stop("cancelled"))
    assert (one.state.history, one.state.origins) == before


def test_a_delegation_leaves_the_need_of_a_model_that_counts_in_its_own_way() -> None:
    closing = []
    for fallback in ((), (OTHER_MODEL,), (replace(OTHER_MODEL, origin=OWN),)):
        model = replace(
            ModelSpec("scripted", 100), fallback=fallback, fallback_on=("overload",) * len(fallback)
        )
        one = AgentHarness()
        one.begins(who=replace(profile("worker", ["helper"]), model=model), prompt="x" * 5_000)
        posts = one.reads(calls(task("helper")), Usage(3, 2))
        closing += [post.closing.tokens for post in posts if isinstance(post, Delegate)]
    assert closing[0] == closing[2] < 1_000
    assert closing[1] > 5_000
