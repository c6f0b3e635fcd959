"""A shard: an actor of Ray that is one worker of a log on a PostgreSQL server.

Ray places it, and starts it again when its process or node is gone. Everything else is the worker's: claims,
leases, takeover, drain. The worker has a thread and a loop of its own, so no call of Ray holds up a session,
and no session holds up a call.

An old process may still answer after Ray has given its node up. So each answer carries the number of the
worker, which is given once, and an answer about a session carries the epoch under which it is written.
"""

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from callboard.actors.cluster.leases import Lease
from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.runtime import event_loop
from callboard.runtime.agent import Agent
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.cluster.ray_driver import driver
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.reading import is_server, shown_address
from callboard.runtime.runtime import Runtime

LEASE_MS: Final = 1_500
"""The lease of a shard's worker. Others take the sessions of a killed shard over after it, without waiting
for Ray, which needs longer to notice."""
SLOTS: Final = 2_000
START_S: Final = 60.0  # in which a shard has loaded its agents and registered
PAUSE_S: Final = 1.0  # before a process that failed ends, so that Ray does not start it in a tight loop

logger: Final = logging.getLogger("callboard.shard")


@dataclass(frozen=True)
class ShardSpec:
    """The work of each shard. It travels to the nodes, so it names code instead of holding it.

    log: the address of a log on a PostgreSQL server. agents: `module:agent` of each host, importable on each
    node. runtime: `module:function` of a function that takes the address and returns the `Runtime` to open;
    empty for `Runtime(log)`. slots: sessions of a shard at a time. lease_ms: of its worker.

    Raises MisuseError.
    """

    log: str = field(repr=False)  # it may hold a password
    agents: tuple[str, ...]
    runtime: str = ""
    slots: int = SLOTS
    lease_ms: int = LEASE_MS

    def __post_init__(self) -> None:
        if not is_server(self.log):
            raise MisuseError("shards share a log on a server: give postgresql://USER@HOST/DATABASE")
        shown_address(self.log)  # it is read now, and not first on a node
        Lease(0, self.lease_ms)
        if not self.agents or self.slots < 1:
            raise MisuseError("a shard needs at least one agent, as module:agent, and one slot")
        for name in (*self.agents, *filter(None, (self.runtime,))):
            module, _, attribute = name.partition(":")
            if not module or not attribute:
                raise MisuseError(f"{name!r:.100} names no object of a module; write module:name")

    def hosts(self) -> list[Agent]:
        """Import the agents. Raises MisuseError."""
        found = [named(one) for one in self.agents]
        for name, host in zip(self.agents, found, strict=True):
            if not isinstance(host, Agent):
                raise MisuseError(f"{name} is not an Agent, but {type(host).__name__}")
        return found

    def made(self) -> tuple[Runtime, PostgresLog]:
        """Return the runtime of a shard, and its log. Raises MisuseError."""
        runtime = named(self.runtime)(self.log) if self.runtime else Runtime(self.log)
        log = runtime.log if isinstance(runtime, Runtime) else None
        if not isinstance(log, PostgresLog):
            raise MisuseError(f"{self.runtime} returns no Runtime on the PostgreSQL server that it is given")
        return runtime, log


class ShardAnswer(NamedTuple):
    """The figures of a shard as its process has them. worker: its number; 0 while it registers.

    node: the id of its node in Ray. sessions: in its memory. commit_p99_ms: of its last 1,000 commits.
    """

    shard: str
    worker: int
    node: str
    process: int
    sessions: int
    slots: int
    commit_p99_ms: float


class SessionAnswer(NamedTuple):
    """A session as a shard has it. epoch: under which it is written. seq: of its latest event."""

    shard: str
    worker: int
    epoch: int
    seq: int
    activity: str


class Shard:
    """The class of the actors. Ray makes it on a node; its methods run on threads of Ray."""

    def __init__(self, name: str, spec: ShardSpec) -> None:
        self._name, self._spec = name, spec
        context = driver().get_runtime_context()
        self._node = context.get_node_id()
        self._is_again = context.was_current_actor_reconstructed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._runtime: Runtime | None = None
        self._worker: ClusterWorker | None = None
        self._failure = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"callboard {name}", daemon=True)
        self._thread.start()

    # --- the worker, on a thread of its own ---------------------------------------------

    def _run(self) -> None:
        try:
            hosts = self._spec.hosts()
            runtime, log = self._spec.made()
            event_loop.run(self._serve(hosts, runtime, log))
        except Exception as error:
            self._failure = failure_text(error)
            logger.warning("shard %s ended: %s", self._name, self._failure)
        finally:
            self._ended.set()
        if self._failure and (self._is_again or self._has_registered()):
            # Ray makes it again, as after a crash. A new one that never ran keeps its reason for `ready`.
            threading.Event().wait(PAUSE_S)
            os._exit(1)

    def _has_registered(self) -> bool:
        return self._worker is not None and self._worker.number > 0

    async def _serve(self, hosts: list[Agent], runtime: Runtime, log: PostgresLog) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with log.leases() as leases, runtime:
            self._runtime = runtime
            name = f"{self._name}@{self._node[:8]}:{os.getpid()}"
            slots, lease_ms = self._spec.slots, self._spec.lease_ms
            self._worker = ClusterWorker(runtime, leases, hosts, slots=slots, lease_ms=lease_ms, name=name)
            await self._worker.run(self._stop)

    # --- called by Ray --------------------------------------------------------------

    def ready(self) -> str:
        """Wait until the worker has registered. Return the reason if it cannot; empty if it has."""
        until = monotonic_ms() + round(START_S * 1_000)
        while monotonic_ms() < until:
            if self._has_registered():
                return ""
            if self._ended.wait(0.02):
                return self._failure or "it was stopped"
        return f"it has not registered in {START_S:g} s"

    def figures(self) -> ShardAnswer:
        """Return the figures of this process."""
        worker, runtime = self._worker, self._runtime
        number = worker.number if worker is not None and not self._ended.is_set() else 0
        found = self._on_loop(runtime.stats) if runtime is not None and number else None
        return ShardAnswer(
            self._name,
            number,
            self._node,
            os.getpid(),
            sum(found.sessions.values()) if found is not None else 0,
            self._spec.slots,
            found.commits.p99_ms if found is not None else 0.0,
        )

    def session(self, session_id: str) -> SessionAnswer | None:
        """Return a session that this process has; None if it has not."""
        worker, runtime = self._worker, self._runtime
        if worker is None or runtime is None or self._ended.is_set():
            return None

        def look() -> SessionAnswer | None:
            one = runtime.live_sessions.get(session_id)
            if one is None or one._live is None:
                return None
            board = one._live.board
            return SessionAnswer(self._name, worker.number, board.epoch, board.seq, one.activity)

        found: SessionAnswer | None = self._on_loop(look)
        return found

    def drain(self) -> bool:
        """Give all sessions back at once, and end the worker. Return True once it has ended."""
        if self._loop is not None and self._stop is not None and not self._ended.is_set():
            self._loop.call_soon_threadsafe(self._stop.set)
        return self._ended.wait(START_S)

    def _on_loop(self, look: Callable[[], Any]) -> Any:
        """Return the value of a function that runs on the loop of the sessions; None if that has ended."""

        async def call() -> Any:
            return look()

        loop = self._loop
        if loop is None or self._ended.is_set():
            return None
        try:
            return asyncio.run_coroutine_threadsafe(call(), loop).result(timeout=10)
        except (CallboardError, RuntimeError, TimeoutError):  # the runtime or its loop is closing
            return None


def named(name: str) -> Any:
    """Return the object `module:name`. Raises MisuseError."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise MisuseError(
            f"{name} cannot be imported on this node: {error}; install it on each node, "
            'or send it with ray.init(runtime_env={"working_dir": ...})'
        ) from None
