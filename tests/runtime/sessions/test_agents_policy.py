"""Deploys: a session that resumes with agents whose definition has changed, under each policy."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest
from msgspec.structs import replace

from callboard import Agent, Outcome, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.errors import AgentsChanged, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.actors.protocol.port_messages import MakeContext, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.agents_policy import AgentsPolicy, check_models, differences
from tests.runtime.sessions.test_resuming import NAME, log_of, recorded, recording
from tests.tables import table

PAID: list[str] = []


@tool
async def pay(ctx: ToolContext) -> str:
    """Pay."""
    PAID.append(ctx.idempotency_key)
    return "paid"


def policy(request: ModelRequest) -> Step:
    """Delegate, let the child pay, answer with the instructions of the host."""
    if request.profile == "clerk":
        return call("pay") if request.turn == 1 else say("the clerk is done")
    if "tool_result" not in str(request.conversation[-1]):
        return call("task", agent="clerk", prompt="pay the bill")
    return say("v3" if b"v3" in (said := bytes(request.system)) else "v2" if b"v2" in said else "v1")


def shop(version: str, *, pays: bool = True, clerk: bool = True) -> Agent:
    """Make the host as of a version."""
    clerks = [Agent("clerk", instructions=version, tools=[pay] if pays else [])] if clerk else []
    return Agent("host", instructions=version, agents=clerks)


def prefix(kind: type[object]) -> list[Event]:
    """Record the session of version 1 and cut it after the first message of a kind."""
    PAID.clear()
    events = asyncio.run(recorded(shop("v1"), ScriptedModel(policy)))
    PAID.clear()
    return events[: next(event.seq for event in events if isinstance(event.body, kind))]


async def goes_on(log: MemoryLog, host: Agent, how: AgentsPolicy) -> tuple[Outcome, Outcome]:
    """Resume with a host; return the outcomes of the ask that was cut off and of the next one."""
    async with Runtime(log, model=ScriptedModel(policy), on_agents_changed=how) as runtime:
        session = await runtime.resume(NAME, host)
        first = await session.outcome
        second = await session.ask("again")
        await session.close()
    recording(log).verify().check()
    return first, second


def instructions_of_clerks(log: MemoryLog) -> list[str]:
    bodies = [event.body for event in recording(log).events]
    begun = [bytes(body.profile) for body in bodies if isinstance(body, Begin)]
    return ["v2" if b"v2" in raw else "v1" for raw in begun if b'"clerk"' in raw[:40]]


def test_the_running_ask_ends_with_the_recorded_agents_and_the_next_one_has_the_new() -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))  # the clerk begins after the resume
    first, second = asyncio.run(goes_on(log, shop("v2"), "next_ask"))
    assert (first.text, second.text) == ("v1", "v2")
    assert instructions_of_clerks(log) == ["v1", "v2"]
    assert len(PAID) == 2


def test_accepted_agents_hold_for_those_that_begin_from_now_on() -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))
    first, second = asyncio.run(goes_on(log, shop("v2"), "accept"))
    assert (first.text, second.text) == ("v1", "v2")  # the host lives, and keeps its profile
    assert instructions_of_clerks(log) == ["v2", "v2"]


def test_without_a_choice_changed_agents_are_refused() -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))
    with pytest.raises(AgentsChanged, match="next_ask"):
        asyncio.run(goes_on(log, shop("v2"), "refuse"))
    assert asyncio.run(goes_on(log, shop("v1"), "refuse"))[0].text == "v1"


def test_an_idle_session_has_the_new_agents_at_once() -> None:
    async def scene() -> str:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(shop("v1"), session_id=NAME)
            await session.ask("one")
            left = await log_of(list(recording(log).events))
        async with Runtime(left, model=ScriptedModel(policy), on_agents_changed="next_ask") as runtime:
            session = await runtime.resume(NAME, shop("v2"))
            text = (await session.ask("two")).text
            await session.close()
        (resumed,) = [e.body for e in recording(left).events if isinstance(e.body, Resumed)]
        assert not resumed.from_next_ask
        recording(left).verify().check()
        return text

    assert asyncio.run(scene()) == "v2"


def test_a_deploy_in_the_middle_of_a_write_tool_neither_repeats_it_nor_loses_the_ask() -> None:
    for how in ("next_ask", "accept"):
        log = asyncio.run(log_of(prefix(ToolStarted)))
        first, _ = asyncio.run(goes_on(log, shop("v2"), how))
        assert first.is_ok
        returned = [e.body.status for e in recording(log).events if isinstance(e.body, ToolReturned)]
        assert returned == ["interrupted", "ok"]
        assert len(PAID) == 1, "of the second ask"


@pytest.mark.parametrize("host", [shop("v2", pays=False), shop("v2", clerk=False)], ids=["tool", "agent"])
def test_a_tool_that_no_longer_exists_answers_the_recorded_agent_with_an_error(host: Agent) -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))
    first, _ = asyncio.run(goes_on(log, host, "next_ask"))
    assert first.text == "v1"
    outputs = [e.body for e in recording(log).events if isinstance(e.body, ToolReturned)]
    assert outputs[0].status == "error"
    assert b"no tool 'pay'" in bytes(outputs[0].output)
    assert not PAID


def test_an_ask_cannot_end_without_the_model_that_it_began_with() -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))

    async def scene() -> None:
        other = ScriptedModel(policy, name="other")
        async with Runtime(log, model=other, on_agents_changed="next_ask") as runtime:
            before = await log.head(NAME)
            with pytest.raises(AgentsChanged, match="no model 'scripted' any more"):
                await runtime.resume(NAME, shop("v2"))
            assert await log.head(NAME) == before

    asyncio.run(scene())


def test_one_resume_may_accept_what_its_runtime_refuses() -> None:
    log = asyncio.run(log_of(prefix(ModelReplied)))

    async def scene() -> str:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.resume(NAME, shop("v2"), accept_changes=True)
            return (await session.outcome).text

    assert asyncio.run(scene()) == "v1"
    assert instructions_of_clerks(log) == ["v2"]


def test_an_ask_goes_on_without_the_agent_that_a_delegation_waits_for() -> None:
    clerk = Agent("clerk", instructions="v1", tools=[pay], context=lambda view: "the bill")
    knowing = Agent("host", instructions="v1", agents=[clerk])
    events = asyncio.run(recorded(knowing, ScriptedModel(policy)))
    cut = next(event.seq for event in events if isinstance(event.body, MakeContext))
    log = asyncio.run(log_of(events[:cut]))
    first, second = asyncio.run(goes_on(log, shop("v2", clerk=False), "accept"))
    assert (first.text, second.status) == ("v1", "ok")
    ends = [event.body for event in recording(log).events if isinstance(event.body, DelegationEnded)]
    assert [end.kind for end in ends] == ["unavailable"]


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(MisuseError, match='"next_ask"'):
        Runtime(":memory:", on_agents_changed="later")  # type: ignore[arg-type]  # a wrong value on purpose


def test_the_models_of_recorded_agents_must_be_there_with_those_that_they_fall_back_to() -> None:
    own = Profile("kid", "", model=ModelSpec("own", fallback=(ModelSpec("spare"),)))
    profiles = [Json(msgspec.json.encode(one)) for one in (own, Profile("plain", ""))]
    check_models("s", profiles, [ModelSpec("main")], {"main", "own", "spare"})
    with pytest.raises(AgentsChanged) as raised:
        check_models("s", profiles, [ModelSpec("main")], {"own"})
    assert raised.value.differences == (
        "there is no model 'main' any more",
        "there is no model 'spare' any more",
    )
    check_models("s", [], [], set())


ONE = ModelSpec("a", fallback=(ModelSpec("b"),), fallback_on=("timeout",))


def between(was: ModelSpec, is_now: ModelSpec) -> tuple[str, ...]:
    return differences((), (), was, is_now)


def test_other_models_are_named() -> None:
    other = ModelSpec("a", fallback=(ModelSpec("b"), ModelSpec("c")), fallback_on=("timeout",))
    assert between(ONE, other) == ("the model: it fell back to b, falls back to b, c",)


def test_another_setting_of_the_same_model_is_named_with_it() -> None:
    other = ModelSpec("a", fallback=(ModelSpec("b", 100),), fallback_on=("timeout",))
    assert between(ONE, other) == ("the model, its fallback b: max_tokens was 8192, is 100",)


def test_a_window_that_became_known_is_no_difference() -> None:
    unknown, known = ModelSpec("a"), ModelSpec("a", context_tokens=200_000)
    assert differences([], [], unknown, known) == ()
    (told,) = differences([], [], known, replace(known, context_tokens=100_000))
    assert "context_tokens" in told


def test_the_same_fallback_is_no_difference() -> None:
    assert between(ONE, ONE) == ()


# --- profiles -----------------------------------------------------------------------


def spec(name: str, effect: Effect = "read", description: str = "") -> ToolSpec:
    return ToolSpec(name, description, Json(b'{"type":"object"}'), effect)


KID = Profile("kid")
PLAIN = Profile("host", tools=(spec("a"), spec("b")), agents=("kid", "aid"), limits=Limits(max_depth=2))


def told(old: Sequence[Profile], new: Sequence[Profile]) -> tuple[str, ...]:
    """Return the differences between profiles, with one model."""
    before, now = ([Json(encode(one)) for one in profiles] for profiles in (old, new))
    return differences(before, now, ONE, ONE)


def test_agents_that_are_gone_or_new_are_named() -> None:
    assert told((PLAIN, KID), (PLAIN, KID)) == ()
    assert told((PLAIN, KID), (PLAIN,)) == ("agent kid was removed",)
    assert told((PLAIN,), (PLAIN, KID)) == ("agent kid is new",)
    other = replace(PLAIN, description="d")
    found = differences([Json(encode(PLAIN))], [Json(encode(other))], ONE, replace(ONE, name="b"))
    assert found == ("host: its description changed", "the model: name was a, is b")


@table(
    ("field", "value", "words"),
    [
        ("description", "d", "its description"),
        ("instructions", "i", "its instructions"),
        ("schema", Json(b'{"type":"object"}'), "its output schema"),
        ("output_type", "app.T", "its output type"),
        ("server_tools", (Json(b"{}"),), "its server tools"),
        ("context", "app.f", "its context function"),
        ("context_in", "system", "the place of its context"),
        ("input_schema", Json(b'{"type":"object"}'), "its contract"),
        ("input_type", "app.In", "the type of its contract"),
        ("schema_arg", "schema", "its argument for a schema"),
        ("factory", "app.make", "its factory"),
        ("unavailable", "no key", "the reason why it is unavailable"),
        ("model_reason", "cheap", "the reason for its model"),
    ],
)
def test_a_field_that_differs_is_named_in_words(field: str, value: object, words: str) -> None:
    assert told((PLAIN,), (replace(PLAIN, **{field: value}),)) == (f"host: {words} changed",)


def test_tools_and_agents_that_are_gone_new_or_moved_are_named() -> None:
    other = replace(PLAIN, tools=(spec("b", "write"), spec("c")), agents=("aid", "kid"))
    assert told((PLAIN,), (other,)) == (
        "host: has tools no more: a",
        "host: has tools now: c",
        "host: tool b: its effect was read, is write",
        "host: may delegate to in another order: aid, kid",
    )
    other = replace(PLAIN, tools=(spec("b"), spec("a", description="d")), agents=("kid",))
    assert told((PLAIN,), (other,)) == (
        "host: has tools in another order: b, a",
        "host: tool a: its description changed",
        "host: may delegate to no more: aid",
    )


def test_limits_and_models_are_told_with_both_values() -> None:
    small, large = ModelSpec("m", 100), ModelSpec("m", 200)
    other = replace(PLAIN, limits=Limits(max_depth=3), model=small)
    assert told((PLAIN,), (other,)) == (
        "host: limit max_depth was 2, is 3",
        "host: its model was its parent's, is m",
    )
    assert told((other,), (replace(other, model=None),)) == ("host: its model was m, is its parent's",)
    changed = replace(other, model=large)
    assert told((other,), (changed,)) == ("host: its model: max_tokens was 100, is 200",)
    handing = replace(PLAIN, default_model=small)
    assert told((PLAIN,), (handing,)) == ("host: its default model was its parent's, is m",)
    assert between(ONE, ModelSpec("a", fallback_on=("timeout",))) == (
        "the model: it fell back to b, falls back to none",
    )
