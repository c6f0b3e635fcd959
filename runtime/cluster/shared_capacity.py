"""A worker's part of the capacity that all workers of a log share: it reports its calls, and acts by answers.

The rules are those of `actors/cluster/model_home`. Before the first answer, and behind the worker's lease,
there are no places. A place that was given counts until the lease ends, whether or not the server answers.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from callboard.actors.cluster.model_home import CUT_MS, SOON_MS, Part
from callboard.runtime.budgets import SharedCapacity
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.places import PlaceTables

logger: Final = logging.getLogger("callboard.worker")


class WorkerCapacity:
    """The limited models of a runtime whose sessions a worker runs.

    timeout_ms: the longest time of a model call in these sessions.
    """

    def __init__(self, leases: Leases, capacity: SharedCapacity, timeout_ms: int) -> None:
        self._leases, self._capacity, self._timeout_ms = leases, capacity, timeout_ms
        self._parts: dict[str, Part] = {}
        self._is_changed = asyncio.Event()
        for model in capacity.limits:
            capacity.lease(model, 0)
        capacity.on_change = self._wake

    @asynccontextmanager
    async def held_by(self, worker: int) -> AsyncIterator[None]:
        """Share the capacity for as long as a lease of this worker lasts. Its places end with the block."""
        self._parts = {model: Part(worker) for model in self._capacity.limits}
        task = asyncio.get_running_loop().create_task(self._share()) if self._parts else None
        try:
            yield
        finally:
            for model in self._parts:
                self._capacity.lease(model, 0)
            if task is not None:
                task.cancel()
                await asyncio.wait({task})

    async def give_back(self) -> None:
        """Free the places, once the worker has left its sessions. Those of calls that still run stay held."""
        for model, part in self._parts.items():
            demand = self._capacity.demand(model)
            if demand.unused:
                self._capacity.lease(model, 0, -demand.unused)  # lost, as other workers' leases are
            if not demand.in_flight and part.number:
                await self._leases.share(partial(PlaceTables.leave, model=model, worker=part.worker))
        self._parts = {}

    async def _share(self) -> None:
        while True:
            self._is_changed.clear()
            waits = [wait for model in self._parts if (wait := self._due_in_ms(model)) is not None]
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes with the event.
            timer = asyncio.get_running_loop().call_later(min(waits, default=CUT_MS) / 1_000, self._wake)
            try:
                await self._is_changed.wait()
            finally:
                timer.cancel()
            await asyncio.sleep(SOON_MS / 1_000)  # many changes, one look
            for model in self._parts:
                if self._due_in_ms(model) == 0:
                    await self._report(model)

    def _wake(self) -> None:
        self._is_changed.set()

    def _due_in_ms(self, model: str) -> int | None:
        return self._parts[model].due_in_ms(self._capacity.demand(model), monotonic_ms())

    async def _report(self, model: str) -> None:
        part, limits = self._parts[model], self._capacity.limits[model]
        demand = self._capacity.demand(model)
        renewal = part.report(demand, monotonic_ms())
        # By the smaller share from now on, since that is what the report says. Tokens leave with it.
        self._capacity.lease(model, part.share, -demand.unused)
        try:
            grant = await self._leases.share(
                lambda one: one.report(model, renewal, demand.unused, limits, self._timeout_ms)
            )
        except Exception as error:  # any error: without further reports, calls would wait for ever
            logger.warning("the capacity of %s was not shared this time: %s", model, failure_text(error))
            return
        tokens = part.take(renewal.number, grant)
        self._capacity.lease(model, part.share, tokens)
