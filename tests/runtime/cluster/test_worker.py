"""Workers on a real server: sessions are run once, taken over, refused, and given back."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError, SessionBusy, SessionFailed, StoreFailed
from callboard.runtime.cluster import worker as module
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.runtime import Runtime
from tests.runtime.cluster.kit import World, is_empty, run


def failed_by(cause: Exception) -> SessionFailed:
    """Return the error of a session that failed for a cause."""
    failure = SessionFailed(f"it can go no further: {cause}")
    failure.__cause__ = cause
    return failure


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


def test_a_session_that_opens_while_its_worker_leaves_is_left_too_and_runs_under_the_next_lease(
    world: World,
) -> None:
    async def scene() -> None:
        for name in "ab":
            await world.change(
                partial(LeaseTables.submit, session=name, host="host", request_id=name, prompt="do it")
            )
        async with world.worker(world.host()) as (worker, _):
            opens, is_leaving, is_open = worker._runtime.open, asyncio.Event(), asyncio.Event()

            async def open_late(host: Any, *, session_id: str, **options: Any) -> Any:
                if session_id == "b":
                    await is_leaving.wait()
                session = await opens(host, session_id=session_id, **options)
                if session_id == "b":
                    is_open.set()
                return session

            worker._runtime.open = open_late  # type: ignore[method-assign, assignment]  # it waits
            await world.until(lambda _: world.deeds.total() == 1)
            first = worker._runtime.live_sessions["a"]
            detach = first.detach

            async def detach_late(grace_s: float = 0) -> Any:
                is_leaving.set()
                await is_open.wait()
                return await detach(grace_s)

            first.detach = detach_late  # type: ignore[method-assign]  # it waits
            world.holds.set()
            worker._has_lapsed = True
            await world.until(is_empty)
        assert world.deeds == {"put 1": 2}

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


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (RuntimeError("a bug"), True),
        (failed_by(ZeroDivisionError()), True),
        (failed_by(StoreFailed("gone")), False),
        (SessionBusy("runs elsewhere"), False),
    ],
    ids=["bug", "failed", "store", "busy"],
)
def test_a_session_that_cannot_go_on_here_is_refused_and_one_that_may_is_claimed_again(
    world: World, error: Exception, is_refused: bool
) -> None:
    async def scene() -> None:
        world.holds.set()
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        async with world.worker(world.host()) as (worker, _):
            opens = worker._runtime.open

            async def open_once(*args: Any, **options: Any) -> Any:
                worker._runtime.open = opens  # type: ignore[method-assign]  # only the first one fails
                raise error

            worker._runtime.open = open_once  # type: ignore[method-assign, assignment]  # the first one fails
            if not is_refused:
                await world.until(is_empty)
                return
            await world.until(lambda tables: any(why for _, why in tables.waiting(9)))
            ((found, why),) = await world.change(lambda one: one.waiting(9))
            assert (found.refused_by, str(error) in why) == ((worker.number,), True)

    run(scene)


def test_a_session_whose_end_could_not_be_told_is_claimed_again_and_ends(world: World) -> None:
    async def scene() -> None:
        world.holds.set()
        await world.change(lambda one: one.submit("s", "host", "r", "do it"))
        async with world.worker(world.host()) as _:
            finish = LeaseTables.finish
            calls = 0

            def finish_later(self: LeaseTables, ended: Sequence[tuple[int, str]]) -> list[bool]:
                nonlocal calls
                calls += 1
                if calls == 1:
                    raise StoreFailed("the server has gone")
                return finish(self, ended)

            world.monkeypatch.setattr(LeaseTables, "finish", finish_later)
            await world.until(is_empty)
            assert calls > 1
        assert world.deeds == {"put 1": 1}

    run(scene)


def test_a_worker_claims_no_more_than_it_can_open_at_a_time(world: World) -> None:
    async def scene() -> None:
        world.holds.set()
        world.monkeypatch.setattr(module, "OPENING_MAX", 2)
        opening, most, lets_go = 0, 0, asyncio.Event()
        for name in "abcde":
            await world.change(
                partial(LeaseTables.submit, session=name, host="host", request_id=name, prompt="do it")
            )
        async with world.worker(world.host()) as (worker, _):
            opens = worker._runtime.open

            async def open_late(*args: Any, **options: Any) -> Any:
                nonlocal opening, most
                opening += 1
                most = max(most, opening)
                await lets_go.wait()
                session = await opens(*args, **options)
                opening -= 1
                return session

            worker._runtime.open = open_late  # type: ignore[method-assign, assignment]  # it waits
            await world.until(lambda _: opening == 2)
            await world.until(lambda tables: len(tables.waiting(9)) == 3)
            lets_go.set()
            await world.until(is_empty)
            assert (most, world.deeds) == (2, {"put 1": 5})

    run(scene)


def test_a_worker_needs_hosts_of_different_names_and_a_slot(world: World) -> None:
    host: Any = world.host()
    for hosts, slots in (([], 1), ([host, host], 1), ([host], 0)):
        with pytest.raises(MisuseError, match="different names"):
            ClusterWorker(None, None, hosts, slots=slots)  # type: ignore[arg-type]  # refused before any use
