"""Probing: a source of tools that cannot be reached refuses the session, or makes its agent unavailable."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from callboard import Agent, Runtime, ScriptedModel, Session, call, calls, say
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.errors import InvalidAgent, SessionNotFound
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, DelegationEnded
from callboard.actors.protocol.profiles import Profile, ToolOrigin, ToolSpec
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.sessions.probing import Probed, needs_probe, probe, without_model
from callboard.runtime.tools.sources import LiveSource, Scope, ToolSource
from callboard.runtime.tools.tool import Tool

PRICE = Tool(
    "price", "The price.", {"type": "object"}, lambda arguments: 5, "read", origin=ToolOrigin("shop", "price")
)


class Shop(ToolSource):
    """A source of one tool. fails: raised when it is asked for its list. asked: how often it was."""

    def __init__(self, fails: Exception | None = None, label: str = "shop") -> None:
        self.label, self.fails = label, fails
        self.asked = 0

    def live(self) -> LiveSource:
        return LiveShop(self)

    def secrets(self) -> Mapping[str, str]:
        return {}


class LiveShop(LiveSource):
    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        self.shop.asked += 1
        if self.shop.fails is not None:
            raise self.shop.fails
        return [PRICE]

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        return [PRICE]

    def release(self, scope: Scope) -> None:
        return None

    async def aclose(self) -> None:
        return None


DOWN = InvalidAgent("the shop is closed")


def host_of(shop: Shop, on_broken: Any = "unavailable") -> Agent:
    """Make a host with a buyer, whose tools are those of the shop, and with another agent."""
    buyer = Agent("buyer", description="Buys.", tools=[shop], on_broken=on_broken)
    return Agent("host", agents=[buyer, Agent("other", description="Talks.")])


def policy(request: Any) -> Any:
    """Let the host call both agents in each ask, and say what it was told."""
    if request.profile == "buyer":
        return call("price") if request.turn == 1 else say("it is 5")
    if request.profile == "other":
        return say("hello")
    if request.turn % 2:
        return calls(call("task", agent="buyer", prompt="p"), call("task", agent="other", prompt="p"))
    blocks = msgspec.json.decode(request.messages[-1])["content"]
    return say(" | ".join(block["content"] for block in blocks if block["type"] == "tool_result"))


def events_of(log: MemoryLog, session_id: str = "s") -> list[Event]:
    """Return the events of a session that passes verification."""
    recording = Recording.open(MemoryReader(log), session_id)
    recording.verify().check()
    assert check_log(recording.events) == []
    return list(recording.events)


def ends_of(log: MemoryLog, session_id: str = "s") -> list[DelegationEnded]:
    return [one.body for one in events_of(log, session_id) if isinstance(one.body, DelegationEnded)]


async def ended(session: Session, prompt: str = "go") -> str:
    """Ask, and return the text of the answer."""
    return (await session.ask(prompt)).text


@pytest.mark.parametrize("error", [DOWN, OSError("no route to the shop")])
def test_a_source_that_fails_its_probe_refuses_the_session_with_the_reason(error: Exception) -> None:
    async def main() -> None:
        log, shop = MemoryLog(), Shop(error)
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            with pytest.raises(InvalidAgent, match=str(error)):
                await runtime.open(host_of(shop, "refuse"), session_id="s")
            with pytest.raises(SessionNotFound):
                MemoryReader(log).events("s", 1, 1)
            shop.fails = None
            session = await runtime.open(host_of(shop, "refuse"), session_id="s")
            assert await ended(session) == "it is 5 | hello"

    asyncio.run(main())


@pytest.mark.parametrize("error", [DOWN, OSError("no route to the shop")])
def test_an_agent_whose_source_fails_is_unavailable_and_its_calls_fold_at_once(error: Exception) -> None:
    async def main() -> None:
        log, shop = MemoryLog(), Shop(error)
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host_of(shop), session_id="s")
            told, other = (await ended(session)).split(" | ")
        said = msgspec.json.decode(told)
        assert (said["status"], said["reason"], other) == ("unavailable", "unavailable", "hello")
        assert str(error) in said["detail"]
        events = events_of(log)
        assert not [one for one in events if isinstance(one.body, Begin) and one.recipient == "host.1"]
        assert [one.kind for one in ends_of(log)] == ["unavailable", "answered"]
        assert shop.asked == 1, "a call asks the source no second time"

    asyncio.run(main())


def test_a_resume_keeps_the_recorded_verdict_and_asks_no_source() -> None:
    async def main() -> None:
        log, shop = MemoryLog(), Shop(DOWN)
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host_of(shop), session_id="s")
            await ended(session)
            await session.detach()
        back = Shop()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.resume("s", host_of(back))
            await ended(session)
        assert [one.kind for one in ends_of(log)] == ["unavailable", "answered"] * 2
        assert back.asked == 0

    asyncio.run(main())


def test_a_source_that_fails_after_its_session_began_leaves_the_agent_as_it_was_recorded() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host_of(Shop()), session_id="s")
            await ended(session)
            await session.detach()
        down = Shop(DOWN)
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.resume("s", host_of(down))
            assert await ended(session) == "it is 5 | hello"
        assert down.asked == 0

    asyncio.run(main())


def test_a_resume_that_takes_changed_agents_asks_the_source_again() -> None:
    async def main() -> None:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(host_of(Shop(DOWN)), session_id="s")
            await ended(session)
            await session.detach()
        back = Shop()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.resume("s", host_of(back), accept_changes=True)
            assert await ended(session) == "it is 5 | hello"
        assert back.asked == 1
        bodies = [one.body for one in events_of(log) if isinstance(one.body, SessionOpened | Resumed)]
        assert [_verdict(one) for one in bodies] == [f"its tools could not be had: {DOWN}", ""]

    asyncio.run(main())


def _verdict(body: SessionOpened | Resumed) -> str:
    profiles = (msgspec.json.decode(raw, type=Profile) for raw in body.profiles)
    return next(one.unavailable for one in profiles if one.name == "buyer")


def test_a_replay_of_an_unavailable_agent_needs_no_source() -> None:
    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            await runtime.run(host_of(Shop(DOWN)), "go", session_id="s")
        return log

    recording = Recording.open(MemoryReader(asyncio.run(main())), "s")
    assert recording.verify().divergence is None
    for seq in range(1, len(recording.events) + 1):
        recording.state(seq, "supervisor")  # every prefix can be read without the source


def test_sources_of_other_agents_are_asked_although_one_has_failed() -> None:
    async def main() -> None:
        log, down, up = MemoryLog(), Shop(DOWN), Shop()
        seller = Agent("other", tools=[up])
        buyer = Agent("buyer", tools=[down], on_broken="unavailable")
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", agents=[buyer, seller]), session_id="s")
            assert (await ended(session)).endswith("| hello")
        assert (down.asked, up.asked) == (1, 1)

    asyncio.run(main())


def test_only_agents_that_may_be_broken_or_have_sources_are_probed() -> None:
    assert not needs_probe(Agent("host", agents=[Agent("kid")]))
    assert needs_probe(Agent("host", agents=[Agent("kid", tools=[Shop()])]))
    assert needs_probe(Agent("host", agents=[Agent("kid", on_broken="unavailable")]))


def test_an_agent_without_a_model_is_found_on_each_way_that_leads_to_it() -> None:
    named = Agent("named", model=ScriptedModel([]), agents=[Agent("below")])
    host = Agent("host", agents=[named, Agent("bare")])
    assert set(without_model(host, has_default=False)) == {"host", "bare"}
    assert without_model(host, has_default=True) == ()


def test_agents_that_many_ways_lead_to_are_looked_at_once() -> None:
    agents = [Agent("last")]
    for at in range(60):  # each way by itself would be one of 2^60
        agents = [Agent(f"{side}{at}", agents=agents) for side in ("left", "right")]
    assert len(without_model(Agent("host", agents=agents), has_default=False)) == 122


@pytest.mark.parametrize("takes_new", [False, True])
def test_sources_are_told_what_was_recorded_and_if_new_tools_are_taken(takes_new: bool) -> None:
    said: list[Any] = []

    class Live:
        async def tools_of(self, sources: Any, scope: Any, recorded: Any, *, takes_new: bool = False) -> Any:
            said.append((list(sources), scope, recorded, takes_new))
            return {name: [] for name in sources}

    recorded = {"host": Profile("host", "")}
    live: Any = Live()
    found = asyncio.run(probe(Agent("host"), live, "scope", recorded, takes_new=takes_new))  # type: ignore[arg-type]  # a stand-in
    assert said == [([], "scope", {"host": ()}, takes_new)]
    assert found == Probed({}, {})
    asyncio.run(probe(Agent("host"), live, "scope"))  # type: ignore[arg-type]  # a stand-in
    assert said[-1] == ([], "scope", None, False)
