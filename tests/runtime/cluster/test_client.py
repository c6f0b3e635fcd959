"""A client on a real server: commands reach the owner of the session, once, whoever dies between."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, Cancel, Tell
from callboard.actors.protocol.errors import (
    InvalidPrompt,
    MisuseError,
    SessionBusy,
    SessionEnded,
    SessionNotFound,
    TellRefused,
    UnknownName,
)
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import standings
from callboard.runtime.cluster.client import Client
from callboard.runtime.control.wire import CancelAsk
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.runtime.cluster.kit import World, is_empty, run


def names_of(place_url: str, kind: type) -> list[str]:
    """Return the request ids, or else the reasons, of the messages of a kind in session `s`."""
    from callboard.replay.recording import Recording

    with Recording.open(place_url, "s") as recording:
        bodies = [one.body for one in recording.events_after(0) if isinstance(one.body, kind)]
    return [getattr(one, "request_id", getattr(one, "reason", "")) for one in bodies]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standings, "PAUSE_S_MAX", 0.02)


def test_asks_go_to_a_worker_and_their_outcomes_come_back(world: World) -> None:
    async def scene() -> None:
        world.holds.set()
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            outcome = await client.ask("s", "do it", host="host", request_id="r1")
            assert (outcome.text, outcome.request_id) == ("all done", "r1")
            assert await client.ask("s", "do it", host="host", request_id="r1") == outcome
            more = await client.ask("s", "more", request_id="r2")
            assert more.is_ok
            assert await client.outcome("s") == await client.outcome("s", "r2") == more
            assert [row.session_id async for row in client.sessions()] == ["s"]
            await world.until(is_empty)  # given back, as an open conversation
            assert [row.status async for row in client.sessions()] == ["open"]
        assert names_of(world.place.url, Ask) == ["r1", "r2"]

    run(scene)


def test_a_running_agent_is_told_and_an_ask_is_cancelled_from_anywhere(world: World) -> None:
    async def scene() -> None:
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            name = await client.submit("s", "do it", host="host")
            assert await client.outcome("s", name) is None
            await world.until(lambda _: world.deeds.total() == 1)
            with pytest.raises(SessionBusy):
                await client.ask("s", "another")
            with pytest.raises(TellRefused):
                await client.tell("s", "host.7", "hello")
            telling = asyncio.create_task(client.tell("s", "host", "hurry", request_id="t"))
            await world.until(lambda _: names_of(world.place.url, Tell)[1:] == ["t"])
            world.holds.set()
            assert await telling == 2
            assert await client.tell("s", "host", "hurry", request_id="t") == 2
            assert (await client.ask("s", "do it", host="host", request_id=name)).is_ok
        assert names_of(world.place.url, Tell)[1:] == ["t"]  # the first was refused

    run(scene)


def test_a_cancel_returns_the_outcome_and_none_if_nothing_runs(world: World) -> None:
    async def scene() -> None:
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            await client.submit("s", "do it", host="host", request_id="r")
            await world.until(lambda _: world.deeds.total() == 1)
            assert not await client.cancel_agent("s", "host.3")
            outcome = await client.cancel("s", "enough", request_id="c")
            assert outcome is not None
            assert (outcome.kind, outcome.request_id) == ("cancelled", "r")
            assert await client.cancel("s", "enough", request_id="c") == outcome  # asked again
            assert await client.cancel("s") is None
        assert names_of(world.place.url, Cancel) == ["enough"]

    run(scene)


def test_a_cancel_that_comes_behind_the_end_of_the_ask_has_no_outcome(world: World) -> None:
    async def scene() -> None:
        world.holds.set()
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            (seq, _) = (await client.ask("s", "do it", host="host")).head
            await world.change(lambda one: one.commands.add("s", "c", _cancel(), ""))
            await world.change(
                lambda one: one._run("UPDATE {s}.commands SET seq = %s WHERE request_id = 'c'", (seq,))
            )
            assert await client.cancel("s", request_id="c") is None

    run(scene)


def _cancel() -> str:
    return msgspec.json.encode(CancelAsk("s")).decode()


def test_a_call_is_approved_and_tools_are_set_by_name(world: World) -> None:
    @tool(approval="before")
    async def pay(amount: int) -> str:
        """Pay."""
        world.deeds["pay"] += 1
        return f"paid {amount}"

    async def scene() -> None:
        model = ScriptedModel(lambda request: call("pay", amount=3) if request.turn == 1 else say("done"))
        host = Agent("host", tools=[pay], model=model)
        async with world.worker(host), Runtime.connect(world.place.url) as client:
            await client.submit("s", "pay", host="host", request_id="r")
            seq = 0
            async for event in client.events("s"):
                if type(event.body).__name__ == "RequestApproval":
                    seq = event.seq
                    break
            with pytest.raises(UnknownName):
                await client.approve("s", 1)
            assert await client.approve("s", seq, by="ann", request_id="yes")
            assert await client.approve("s", seq, by="ann", request_id="yes")
            assert not await client.deny("s", seq, "too late")
            assert (await client.ask("s", "pay", host="host", request_id="r")).text == "done"
            await client.set_tools("s", [], agent="host")
            with pytest.raises(UnknownName, match="no tool 'other'"):
                await client.set_tools("s", ["other"], agent="host")
            assert world.deeds == {"pay": 1}

    run(scene)


def test_what_cannot_be_sent_is_refused_at_once(world: World) -> None:
    async def scene() -> None:
        with pytest.raises(MisuseError, match="on a server"):
            Runtime.connect("callboard.db")
        world.holds.set()
        async with Runtime.connect(world.place.url) as client:
            assert "Client(" in repr(client)
            with pytest.raises(SessionNotFound):
                await client.tell("s", "host", "hello")
            with pytest.raises(SessionNotFound):
                await client.outcome("s")
            with pytest.raises(InvalidPrompt):
                await client.submit("s", {"n": float("nan")}, host="host")
            with pytest.raises(MisuseError, match="cannot be sent"):
                await client.submit("s", 3, host="host")  # type: ignore[arg-type]  # the test's point
            await client.submit("s", "one", host="host", request_id="r")
            with pytest.raises(MisuseError, match="another command"):
                await client.submit("s", "two", host="host", request_id="r")
            assert (await client.stats()).waiting == (("s", "a worker with the agent 'host'"),)
            await world.change(lambda one: one.submit("t", "host", "r", "do it"))
            async with world.worker(world.host()):
                await world.until(is_empty)
            with pytest.raises(SessionEnded):
                await client.ask("t", "more")
            assert await client.delete("t") > 0
            assert await client.prune(older_than=timedelta(0), status=None) == 1
            assert [row async for row in client.sessions()] == []

    run(scene)


def test_a_client_needs_to_be_connected(world: World) -> None:
    async def scene() -> None:
        from callboard.actors.protocol.errors import StoreFailed

        with pytest.raises(StoreFailed, match="not open"):
            await Client.at(world.place.url).submit("s", "one", host="host")

    run(scene)
