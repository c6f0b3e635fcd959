"""Deploys: a session that resumes with agents whose definition has changed, under each policy."""

import asyncio

import msgspec
import pytest

from callboard import Agent, Outcome, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.errors import AgentsChanged, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.actors.protocol.port_messages import MakeContext, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.log import MemoryLog
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.agents_policy import AgentsPolicy, check_models
from tests.runtime.sessions.test_resuming import NAME, log_of, recorded, recording

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
