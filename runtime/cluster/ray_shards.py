"""The shards of a log on a Ray cluster: start them, ask them, replace them, stop them.

    start_shards -> [ Ray: place, restart | worker: claim, lease, take over ] -> stop

Rules
  - Shards are detached: they live on after the program that started them.
  - No call is tried again by Ray (`max_task_retries=0`): the caller learns that it has no answer.
  - An answer counts only if the log agrees with it *after* it has come: the worker's lease is live, and a
    session's epoch is still the one of the answer. The answers of an old process, which may go on for a while
    after Ray has given its node up, are dropped.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.cluster.client import Client
from callboard.runtime.cluster.ray_driver import NAMESPACE, connected
from callboard.runtime.cluster.ray_shard import SessionAnswer, Shard, ShardAnswer, ShardSpec
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.log import PostgresLog

ANSWER_S: Final = 5.0
"""Seconds in which a shard answers; Ray itself waits for a lost node for longer."""
START_S: Final = 90.0
SHARDS_MAX: Final = 10_000
_CALLS: Final = 8  # of Ray at a time in a shard: threads that wait


class RayShards:
    """The shards of a log, by the name of their group. `start_shards` makes it.

    names: of the shards, in their order.
    """

    def __init__(self, spec: ShardSpec, names: Sequence[str], num_cpus: float = 1.0) -> None:
        self.spec = spec
        self.names = tuple(names)
        self._num_cpus = num_cpus

    def __repr__(self) -> str:
        return f"RayShards({len(self.names)} of {', '.join(self.spec.agents)})"

    def connect(self) -> Client:
        """Return a client of the sessions of the shards' log: use it with `async with`.

        It has the address and the keys of the runtime of the shards. Raises MisuseError.
        """
        return Client(self._log())

    async def stats(self) -> list[ShardAnswer]:
        """Return the figures of each shard that answers and whose lease is live, in the order of `names`."""
        answers = await asyncio.gather(*(self._asked(name, "figures") for name in self.names))
        async with self._log().leases() as leases:
            live = {
                one.state.worker for one in await leases.change(lambda one: one.workers()) if one.left_ms > 0
            }
        return [one for one in answers if one is not None and one.worker in live]

    async def session(self, session_id: str) -> SessionAnswer | None:
        """Return where a session runs. None if no shard has it under its present epoch."""
        answers = await asyncio.gather(*(self._asked(name, "session", session_id) for name in self.names))
        async with self._log().leases() as leases:
            epoch = await leases.change(lambda one: one.epoch(session_id))
        return next((one for one in answers if one is not None and one.epoch == epoch), None)

    async def replace(self, spec: ShardSpec) -> None:
        """Start each shard again with other code or settings, one after the other, for a rolling upgrade.

        Its sessions are given back first, so that the other shards, or itself, go on with them. A session
        whose recorded agents differ waits for a shard that has them. Raises MisuseError if one cannot start,
        and leaves the ones after it as they are.
        """
        for name in self.names:
            await self._drained(name)
            await _started(name, spec, self._num_cpus)
        self.spec = spec

    async def stop(self) -> None:
        """Give all sessions back at once, and end the shards."""
        await asyncio.gather(*(self._drained(name) for name in self.names))

    async def _drained(self, name: str) -> None:
        ray, actor = connected(), _actor(name)
        if actor is not None:
            await self._asked(name, "drain", timeout_s=START_S)
            ray.kill(actor, no_restart=True)
            await _gone(name)

    async def _asked(self, name: str, method: str, *values: object, timeout_s: float = ANSWER_S) -> Any:
        """Call a method of a shard. None if it does not answer: it is dead, or is being started."""
        ray, actor = connected(), _actor(name)
        if actor is None:
            return None
        try:
            return await asyncio.wait_for(_awaited(getattr(actor, method).remote(*values)), timeout_s)
        except (ray.exceptions.RayError, TimeoutError):
            return None

    def _log(self) -> PostgresLog:
        _, log = self.spec.made()
        return log


async def start_shards(
    log: str,
    agents: Sequence[str],
    *,
    shards: int,
    name: str = "shard",
    runtime: str = "",
    slots: int | None = None,
    lease_s: float | None = None,
    num_cpus: float = 1.0,
) -> RayShards:
    """Start shards on a Ray cluster to which this process is connected, and wait until they are workers.

        ray.init(address="auto")
        shards = await start_shards("postgresql://app@db/agents", ["survey:host"], shards=8)

    log, agents, runtime, slots: see `ShardSpec`. shards: processes, spread over the nodes; each runs up to
    `slots` sessions on one core. name: of the group; shards of this name that run already stay as they are.
    lease_s: seconds after which other shards take over the sessions of one that is gone. num_cpus: of a node,
    for each shard.

    Raises MisuseError without a connection to a cluster, and with the reason if a shard cannot start on its
    node; MissingExtra without `ray`.
    """
    if not 1 <= shards <= SHARDS_MAX:
        raise MisuseError(f"shards is a number from 1 to {SHARDS_MAX:,}, not {shards!r:.40}")
    given = {"slots": slots, "lease_ms": None if lease_s is None else round(lease_s * 1_000)}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    spec = ShardSpec(log, tuple(agents), runtime, **chosen)
    names = [f"{name}-{at}" for at in range(shards)]
    connected()
    await asyncio.gather(*(_started(one, spec, num_cpus) for one in names))
    return RayShards(spec, names, num_cpus)


async def _started(name: str, spec: ShardSpec, num_cpus: float) -> None:
    """Start a shard if it is not there, and wait until it is a worker. Raises MisuseError."""
    ray, runs_already = connected(), _actor(name) is not None
    actor = (
        ray.remote(Shard)
        .options(
            name=name,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=0,
            max_concurrency=_CALLS,
            num_cpus=num_cpus,
            scheduling_strategy="SPREAD",
        )
        .remote(name, spec)
    )
    try:
        reason = await asyncio.wait_for(_awaited(actor.ready.remote()), START_S)
    except ray.exceptions.RayError as error:
        # Such as a node on which callboard or Ray is missing: its class could not be loaded there.
        reason = (
            f"its process failed; is callboard[ray,postgres] installed on each node? {failure_text(error)}"
        )
    except TimeoutError:
        reason = f"no node has room for it (num_cpus={num_cpus:g}), or none has answered in {START_S:g} s"
    if reason:
        if not runs_already:  # else Ray is starting it again
            ray.kill(actor, no_restart=True)
        raise MisuseError(f"{name} cannot start: {reason}")


def _actor(name: str) -> Any:
    """Return the handle of a shard, or None if no shard has this name."""
    try:
        return connected().get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


async def _gone(name: str) -> None:
    """Wait until the name of a shard is free again. Raises MisuseError."""
    try:
        async with asyncio.timeout(START_S):
            while _actor(name) is not None:  # noqa: ASYNC110  # Ray tells nobody
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise MisuseError(f"{name} does not end: Ray has not confirmed it in {START_S:g} s") from None


async def _awaited(reference: Any) -> Any:
    """Await a reference of Ray, which is awaitable but no coroutine."""
    return await reference
