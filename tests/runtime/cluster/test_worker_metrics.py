"""The figures of the worker that runs in a process."""

import asyncio

from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.runtime import Runtime
from tests.crash.cluster_agents import host
from tests.runtime.cluster.kit import run
from tests.runtime.log.postgres.places import OnServer


def series(text: str) -> dict[str, float]:
    lines = [line.split() for line in text.splitlines() if line.startswith("callboard_worker_")]
    return {name: float(value) for name, value in lines}


def test_a_worker_tells_its_sessions_slots_lease_and_lost_leases(place: OnServer) -> None:
    async def scene() -> None:
        stop = asyncio.Event()
        async with Leases(place.url) as leases, Runtime(place.log(), metrics=True) as runtime:
            assert runtime.stats().worker is None
            assert series(runtime.metrics()) == {}
            worker = ClusterWorker(runtime, leases, [host], slots=7, lease_ms=60_000, name="w")
            task = asyncio.create_task(worker.run(stop))
            while not worker.number:  # noqa: ASYNC110  # it tells no one
                await asyncio.sleep(0.01)
            found = runtime.stats().worker
            assert found is not None
            assert (found.name, found.number, found.sessions, found.slots) == ("w", worker.number, 0, 7)
            assert 0 < found.lease_left_ms <= 60_000
            told = series(runtime.metrics())
            assert told.pop("callboard_worker_lease_left_seconds") > 0
            assert told == {
                "callboard_worker_sessions": 0,
                "callboard_worker_slots": 7,
                "callboard_worker_lost_leases_total": 0,
            }
            await leases.change(lambda one: one.leave(worker.number))  # as if others had taken its place
            worker._lease = worker._lease.renewed(worker._lease.sent_ms - 20_000)  # its renewal is due
            while not worker.stats().lost_leases:  # noqa: ASYNC110  # it tells no one
                await asyncio.sleep(0.01)
            stop.set()
            await task
            assert worker.stats().lease_left_ms == 0

    run(scene)
