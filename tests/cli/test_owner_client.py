"""Commands of the terminal on a server: they reach the worker that has the session, or say why not."""

import asyncio
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from callboard.cli import owner_client
from callboard.cli.main import cli
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import worker as module
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.runtime.cluster.kit import World, run
from tests.runtime.log.postgres.places import OnServer, on_server


@pytest.fixture
def place() -> Iterator[OnServer]:
    with on_server() as place:
        yield place


@pytest.fixture
def world(place: OnServer, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "POLL_MS", 20)
    return World(place, monkeypatch)


async def said(world: World, *words: str, code: int = 0) -> str:
    """Run a command beside the event loop. Return its output."""
    done = await asyncio.to_thread(CliRunner().invoke, cli, [*words, "--log", world.place.url])
    assert done.exit_code == code, done.output
    return done.output


def test_cancel_tell_and_delete_reach_the_worker_of_a_session(world: World) -> None:
    async def scene() -> None:
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            await client.submit("s", "do it", host="host", request_id="r")
            await world.until(lambda _: world.deeds.total() == 1)
            assert "no running agent" in await said(world, "tell", "s", "host.7", "hello", code=2)
            assert "s: no such agent runs" in (
                await said(world, "cancel", "s", "--agent", "host.7", code=1)
            ).replace("s, host.7", "s")
            assert "runs in worker" in await said(world, "delete", "s", "--yes", code=2)
            assert "session s: cancelled" in await said(world, "cancel", "s")
            await world.until(lambda tables: not tables.has("s"))
            assert "so nothing can be cancelled" in await said(world, "cancel", "s", code=3)
            assert "session s deleted" in await said(world, "delete", "s", "--yes")
            assert await world.change(lambda one: one._run("SELECT 1 FROM {s}.commands")) == []

    run(scene)


def test_a_call_is_approved_where_it_waits(world: World) -> None:
    @tool(approval="before")
    async def pay(amount: int) -> str:
        """Pay."""
        world.deeds["pay"] += amount
        return "paid"

    async def scene() -> None:
        model = ScriptedModel(lambda request: call("pay", amount=3) if request.turn == 1 else say("done"))
        async with (
            world.worker(Agent("host", tools=[pay], model=model)),
            Runtime.connect(world.place.url) as client,
        ):
            await client.submit("s", "pay", host="host", request_id="r")
            async for event in client.events("s"):
                if type(event.body).__name__ == "RequestApproval":
                    break
            assert f"s#{event.seq}" in await said(world, "approvals")
            await said(world, "approvals", "--yes", f"s#{event.seq}")
            assert (await client.ask("s", "pay", host="host", request_id="r")).text == "done"
            assert "nothing was changed" in await said(world, "approvals", "--no", f"s#{event.seq}", code=1)
            assert world.deeds == {"pay": 3}

    run(scene)


def test_a_command_without_an_owner_stays_and_old_sessions_are_pruned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_client, "_TIMEOUT_S", 0.1)

    async def scene() -> None:
        async with Runtime.connect(world.place.url) as client:
            await client.submit("s", "do it", host="host", request_id="r")
            assert "waits for a worker with the agent" in await said(
                world, "tell", "s", "host", "hello", code=1
            )
            world.holds.set()
            async with world.worker(world.host()):
                assert (await client.ask("s", "do it", host="host", request_id="r")).is_ok
            old = ("delete", "--older-than", "2100-01-01", "--status", "any", "--yes")
            assert "1 session deleted" in await said(world, *old)

    run(scene)
