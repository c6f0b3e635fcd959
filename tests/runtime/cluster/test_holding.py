"""The lease of a plain runtime: a live owner keeps its sessions, a dead one leaves them to workers."""

import asyncio

import pytest

from callboard.actors.protocol.errors import SessionBusy, SessionDetached, StoreFailed
from callboard.runtime.cluster import holding as module
from callboard.runtime.cluster.holding import Holding
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.runtime import Runtime
from tests.runtime.cluster.kit import LEASE_MS, World, is_empty, run


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TURN_MS", 20)


def end_leases(tables: LeaseTables) -> None:
    tables._run("UPDATE {s}.workers SET ends_ms = 0")


def test_a_live_runtime_keeps_its_sessions_unless_they_are_stolen(world: World) -> None:
    async def scene() -> None:
        host = world.host()
        async with Runtime(world.place.log()) as one, Runtime(world.place.log()) as other:
            session = await one.open(host, session_id="s")
            asking = asyncio.create_task(session.ask("do it"))
            await world.until(lambda _: world.deeds.total() == 1)
            for taking in (other.resume("s", host), other.delete("s")):
                with pytest.raises(SessionBusy, match="runs in worker"):
                    await taking
            stolen = await other.resume("s", host, steal=True)
            assert (await stolen.outcome).is_ok
            world.holds.set()
            await asyncio.gather(asking, return_exceptions=True)
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_an_idle_session_is_given_back_and_an_unfinished_one_goes_to_a_worker(world: World) -> None:
    async def scene() -> None:
        async with Runtime(world.place.log()) as runtime:
            async with runtime.open(world.host(), session_id="idle"):
                assert await world.change(lambda one: one.owner("idle")) is not None
            session = await runtime.open(world.host(), session_id="s")
            await session.submit("do it", request_id="r")
            await world.until(lambda _: world.deeds.total() == 1)
            await session.detach(0)
        waiting = await world.change(lambda one: one.waiting(9))
        assert [one.session for one, _ in waiting] == ["s"]
        assert await world.change(lambda one: one.workers()) == []
        async with world.worker(world.host()), Runtime.connect(world.place.url) as client:
            assert (await client.ask("s", "do it", request_id="r")).is_ok
            await world.until(is_empty)
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_commands_reach_the_sessions_of_a_plain_runtime(world: World) -> None:
    async def scene() -> None:
        async with (
            Runtime(world.place.log()) as runtime,
            Runtime.connect(world.place.url) as client,
            world.worker(world.host()),
        ):
            session = await runtime.open(world.host(), session_id="s")
            asking = asyncio.create_task(session.ask("do it"))
            await world.until(lambda _: world.deeds.total() == 1)
            outcome = await client.cancel("s", "enough")
            assert outcome is not None
            assert outcome.kind == (await asking).kind == "cancelled"
            assert runtime.live_sessions["s"] is session  # which no worker has taken

    run(scene)


def test_a_runtime_that_lost_its_lease_leaves_its_sessions_and_registers_again(world: World) -> None:
    async def scene() -> None:
        async with Runtime(world.place.log()) as runtime:
            holding = Holding(runtime, runtime._log, lease_ms=LEASE_MS)  # type: ignore[arg-type]  # on a server
            runtime._holding = runtime._live.leases = holding
            session = await runtime.open(world.host(), session_id="s")
            asking = asyncio.create_task(session.ask("do it"))
            await world.until(lambda _: world.deeds.total() == 1)
            await world.change(end_leases)
            with pytest.raises(SessionDetached):
                await asking
            assert not holding.may_start()
            again = await runtime.resume("s", world.host())
            assert holding.may_start()
            assert (await again.outcome).is_ok
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_a_session_that_opens_while_the_lease_ends_is_left_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with Runtime(world.place.log()) as runtime:
            holding = Holding(runtime, runtime._log, lease_ms=LEASE_MS)  # type: ignore[arg-type]  # on a server
            runtime._holding = runtime._live.leases = holding
            await runtime.open(world.host(), session_id="first")
            hold = holding.hold

            async def hold_until_it_ends(session: str, host: str, *, steal: bool) -> str:
                owner = await hold(session, host, steal=steal)
                await world.change(end_leases)
                await world.until(lambda _: "first" not in runtime.live_sessions)
                return owner

            monkeypatch.setattr(holding, "hold", hold_until_it_ends)
            session = await runtime.open(world.host(), session_id="late")
            with pytest.raises(SessionDetached):
                await session.ask("do it")
            assert "late" not in runtime.live_sessions
        assert world.deeds.total() == 0

    run(scene)


def test_a_runtime_ends_although_the_server_does_not_take_its_lease_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with Runtime(world.place.log()) as runtime:
            await runtime.open(world.host(), session_id="s")
            assert isinstance(runtime._holding, Holding)

            async def cut_off(work: object) -> None:
                raise StoreFailed("cut off")

            monkeypatch.setattr(runtime._holding._leases, "change", cut_off)
        assert [one.sessions for one in await world.change(lambda one: one.workers())] == [1]

    run(scene)
