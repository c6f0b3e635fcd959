"""A worker's part of the capacity that all workers of a log share: it reports its calls, and acts by answers.

The rules are those of `actors/cluster/model_home`. Before the first answer, and behind the worker's lease,
there are no places. A place that was given counts until the lease ends, whether or not the server answers.
A model has a part for each tag that its sessions count for. Parts that are due go in one report.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from callboard.actors.cluster.model_home import CUT_MS, SOON_MS, Part
from callboard.runtime.budgets import SharedCapacity
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.places import PlaceTables, Report

logger: Final = logging.getLogger("callboard.worker")


class WorkerCapacity:
    """The limited models of a runtime whose sessions a worker runs.

    timeout_ms: the longest time of a model call in these sessions.
    """

    def __init__(self, leases: Leases, capacity: SharedCapacity, timeout_ms: int) -> None:
        self._leases, self._capacity, self._timeout_ms = leases, capacity, timeout_ms
        self._worker = 0
        self._parts: dict[str, dict[str, Part]] = {}  # by model and tag
        self._is_changed = asyncio.Event()
        for model in capacity.limits:
            capacity.lease(model, 0)
        capacity.on_change = self._wake

    @asynccontextmanager
    async def held_by(self, worker: int) -> AsyncIterator[None]:
        """Share the capacity for as long as a lease of this worker lasts. Its places end with the block."""
        self._worker, self._parts = worker, {model: {} for model in self._capacity.limits}
        task = asyncio.get_running_loop().create_task(self._share()) if self._parts else None
        try:
            yield
        finally:
            for model, parts in self._parts.items():
                for tag in parts:
                    self._capacity.lease(model, 0, tag=tag)
            if task is not None:
                task.cancel()
                await asyncio.wait({task})

    async def give_back(self) -> None:
        """Free the places, once the worker has left its sessions. Those of calls that still run stay held."""
        for model, parts in self._parts.items():
            free = []
            for tag, demand in self._capacity.demands(model).items():
                if demand.unused:  # lost, as other workers' leases are
                    self._capacity.lease(model, 0, -demand.unused, tag)
                if not demand.in_flight and tag in parts:
                    free.append(tag)
                self._capacity.forget(model, tag)
            if free:
                await self._leases.share(
                    partial(PlaceTables.leave, model=model, worker=self._worker, tags=free)
                )
        self._parts = {}

    async def _share(self) -> None:
        while True:
            self._is_changed.clear()
            waits = [wait for model in self._parts for wait in self._due_in_ms(model).values()]
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes with the event.
            timer = asyncio.get_running_loop().call_later(min(waits, default=CUT_MS) / 1_000, self._wake)
            try:
                await self._is_changed.wait()
            finally:
                timer.cancel()
            await asyncio.sleep(SOON_MS / 1_000)  # many changes, one look
            for model in self._parts:
                if due := [tag for tag, wait_ms in self._due_in_ms(model).items() if wait_ms == 0]:
                    await self._report(model, due)

    def _wake(self) -> None:
        self._is_changed.set()

    def _due_in_ms(self, model: str) -> dict[str, int]:
        """Return the time until the next report of each tag that has something to say."""
        parts, found = self._parts[model], dict[str, int]()
        for tag, demand in self._capacity.demands(model).items():
            part = parts.setdefault(tag, Part(self._worker, tag))
            if (wait_ms := part.due_in_ms(demand, monotonic_ms())) is not None:
                found[tag] = wait_ms
            elif tag and part.is_idle:
                del parts[tag]
                self._capacity.forget(model, tag)
        return found

    async def _report(self, model: str, tags: Sequence[str]) -> None:
        demands, limits, now = self._capacity.demands(model), self._capacity.limits[model], monotonic_ms()
        parts = [self._parts[model][tag] for tag in tags]
        reports = [Report(part.report(demands[part.tag], now), demands[part.tag].unused) for part in parts]
        # By the smaller share from now on, since that is what the report says. Tokens leave with it.
        for part in parts:
            self._capacity.lease(model, part.share, -demands[part.tag].unused, part.tag)
        try:
            grants = await self._leases.share(
                lambda one: one.report(model, reports, limits, self._timeout_ms)
            )
        except Exception as error:  # of any kind: without reports, calls would wait forever
            logger.warning("the capacity of %s was not shared this time: %s", model, failure_text(error))
            return
        for part, said, grant in zip(parts, reports, grants, strict=True):
            tokens = part.take(said.renewal.number, grant)
            self._capacity.lease(model, part.share, tokens, part.tag)
