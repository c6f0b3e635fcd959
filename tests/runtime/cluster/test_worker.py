"""Workers on a real server: sessions are run once, taken over, refused, and given back."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError, SessionBusy
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.runtime import Runtime
from tests.runtime.cluster.kit import World, is_empty, run


def test_a_submitted_session_is_run_to_its_end_and_drains_go_on_elsewhere(world: World) -> None:
    async def scene() -> None:
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        async with world.worker(world.host()) as (first, end):
            await world.until(lambda _: world.deeds.total() == 1)
            await end()  # drained: the session waits at once
            assert [one.session for one, _ in await world.change(lambda one: one.waiting(9))] == ["s"]
            assert not first.may_start()
        world.holds.set()
        async with world.worker(world.host()):
            await world.until(is_empty)
        with_reader = world.place.reader()
        assert [(row.status, row.kind) for row in with_reader.sessions()] == [("closed", "answered")]
        with_reader.close()
        assert world.deeds == {"put 1": 1}  # the tool had started, so it is not started again

    run(scene)


def test_a_worker_that_cannot_renew_starts_nothing_and_loses_its_sessions_to_another(world: World) -> None:
    async def scene() -> None:
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        async with world.worker(world.host()) as (first, end_first):
            await world.until(lambda _: world.deeds.total() == 1)
            number, hangs = first.number, asyncio.Event()
            change = first._leases.change

            async def cut_off(work: Any) -> Any:
                await hangs.wait()
                return await change(work)

            first._leases.change = cut_off  # type: ignore[method-assign]  # its way to the server
            try:
                async with world.worker(world.host()):
                    await world.until(is_empty)
                    assert not first.may_start()
            finally:
                hangs.set()
            await world.until(lambda _: first.number > number)  # it came back under another one
            await end_first()
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_a_session_under_a_live_lease_is_not_taken_or_deleted_unless_it_is_stolen(world: World) -> None:
    async def scene() -> None:
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        host = world.host()
        async with world.worker(host) as (worker, _), Runtime(world.place.log()) as other:
            await world.until(lambda _: world.deeds.total() == 1)
            for taking in (other.resume("s", host), other.delete("s")):
                with pytest.raises(SessionBusy, match=f"runs in worker {worker.name}"):
                    await taking
            session = await other.resume("s", host, steal=True)
            assert (await session.outcome).is_ok
            world.holds.set()
        await world.until(lambda tables: tables.owner("s") is None)
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_a_session_whose_agents_differ_waits_for_a_worker_that_fits(world: World) -> None:
    async def scene() -> None:
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        async with world.worker(world.host()) as (_, end):
            await world.until(lambda _: world.deeds.total() == 1)
            await end()
        world.holds.set()
        async with world.worker(world.host(tools=2)) as (other, end):
            await world.until(lambda tables: any(why for _, why in tables.waiting(9)))
            ((found, why),) = await world.change(lambda one: one.waiting(9))
            assert found.refused_by == (other.number,)
            assert "other" in why
            async with world.worker(world.host()):
                await world.until(is_empty)

    run(scene)


def test_a_worker_needs_hosts_of_different_names_and_a_slot(world: World) -> None:
    host: Any = world.host()
    for hosts, slots in (([], 1), ([host, host], 1), ([host], 0)):
        with pytest.raises(MisuseError, match="different names"):
            ClusterWorker(None, None, hosts, slots=slots)  # type: ignore[arg-type]  # refused before any use
