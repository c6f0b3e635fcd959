"""The processes of a campaign on commands, and the points at which one of them is killed: see `commands`."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from callboard.actors.protocol.errors import CallboardError
from callboard.actors.protocol.port_messages import RequestApproval
from callboard.runtime.agent import Agent
from callboard.runtime.cluster import commands, standings, worker
from callboard.runtime.cluster.client import Client
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.control import server
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.commands import CommandTables
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.store import PostgresStore
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

OF_OWNERS: Final = {  # each with the number of times that a round passes it, at least
    "in a claim": 1,
    "claimed": 1,
    "taken over": 1,
    "read": 1,
    "carrying out": 7,
    "posted": 6,
    "before append": 4,
    "in an append": 4,
    "appended": 4,
    "in an answer": 1,
    "answered": 1,
    "in a finish": 2,
    "finished": 2,
}
OF_CLIENTS: Final = {"in a submit": 7, "submitted": 7, "waiting": 3, "settled": 7}
POINTS: Final = {**OF_OWNERS, **OF_CLIENTS}
PATIENCE_S: Final = 60
LEASE_MS: Final = 4_000
QUICK: Final = ((worker, "POLL_MS", 20), (standings, "PAUSE_S_MAX", 0.02))


# --- the two sides --------------------------------------------------------------------------------------


def host(deeds: Path) -> Agent:
    """Return an agent that does one thing, once a person has approved it. deeds: the file of its effects."""

    @tool(effect="write", approval="before")
    def put(n: int) -> str:
        """Do it."""
        with deeds.open("a") as file:
            file.write(f"{n}\n")
        return "done"

    model = ScriptedModel(lambda request: call("put", n=1) if request.turn == 1 else say("all done"))
    return Agent("host", tools=[put], model=model)


@asynccontextmanager
async def owning(url: str, deeds: Path, name: str) -> AsyncIterator[None]:
    """Run a worker until the block ends."""
    stop = asyncio.Event()
    async with Leases(url) as leases, Runtime(PostgresLog(url)) as runtime:
        one = ClusterWorker(runtime, leases, [host(deeds)], lease_ms=LEASE_MS, name=name)
        task = asyncio.create_task(one.run(stop))
        try:
            yield
        finally:
            stop.set()
            await task


async def results(client: Client) -> list[str]:
    """Send all commands, and return their results as text."""
    await client.submit("s", "do it", host="host", request_id="ask")
    await client.submit("c", "do it", host="host", request_id="ask")
    sent: list[Awaitable[object]] = [
        client.ask("s", "do it", host="host", request_id="ask"),
        client.ask("c", "do it", host="host", request_id="ask"),
        client.tell("s", "host", "hurry", request_id="tell"),
        client.set_tools("s", ["put"], agent="host", request_id="tools"),
        client.set_tools("s", ["fly"], agent="host", request_id="refused"),
        _approved(client),
        client.cancel("c", "enough", request_id="cancel"),
    ]
    return list(await asyncio.gather(*map(_result_of, sent)))


async def _approved(client: Client) -> bool:
    async for event in client.events("s"):
        if isinstance(event.body, RequestApproval):
            return await client.approve("s", event.seq, request_id="yes")
    raise AssertionError("the session has ended without a request")


async def _result_of(work: Awaitable[object]) -> str:
    try:
        return repr(await work)
    except CallboardError as error:
        return f"{type(error).__name__}: {error}"


# --- the process that is killed -------------------------------------------------------------------------


class Reaper:
    """Kills this process as it passes a point for the nth time, in an append `late_s` later."""

    def __init__(self, point: str, nth: int, late_s: float) -> None:
        self._point, self._left, self._late_s = point, nth, late_s
        self._done: list[str] = []  # in the transaction that runs

    def at(self, point: str) -> None:
        """Pass a point."""
        if point != self._point:
            return
        self._left -= 1
        if self._left == 0 and point == "in an append":
            threading.Timer(self._late_s, _die).start()
        elif self._left == 0:
            _die()

    def install(self) -> None:
        """Pass the points in this process from now on."""
        for owner, name, within, after in (
            (LeaseTables, "claim", "in a claim", "claimed"),
            (CommandTables, "waiting", "", "read"),
            (CommandTables, "answer", "in an answer", "answered"),
            (LeaseTables, "finish", "in a finish", "finished"),
            (CommandTables, "add", "in a submit", "submitted"),
        ):
            self._wrap(owner, name, partial(self._has_changed, within, after))
        self._wrap(CommandTables, "find", self._has_found)
        self._wrap(PostgresStore, "take_over", lambda _: self.at("taken over"))
        self._wrap(PostgresStore, "create", lambda _: self.at("taken over"))
        self._wrap(commands, "is_event_of", lambda is_so: self.at("posted") if is_so else None)
        self._watch_changes()
        self._watch_appends()
        begin = server.carry_out

        def carry_out(*given: Any) -> Any:
            self.at("carrying out")
            return begin(*given)

        _replace(commands, "carry_out", carry_out)

    def _has_changed(self, within: str, after: str, done: Any) -> None:
        if done or done is None:  # `answer` returns nothing
            self.at(within)
            self._done.append(after)

    def _has_found(self, row: Any) -> None:
        if row is not None:
            self._done.append("waiting" if row.is_waiting else "settled")

    def _wrap(self, owner: Any, name: str, then: Callable[[Any], object]) -> None:
        original = getattr(owner, name)

        def wrapped(*given: Any, **named: Any) -> Any:
            done = original(*given, **named)
            then(done)
            return done

        _replace(owner, name, wrapped)

    def _watch_changes(self) -> None:
        change = Leases.change

        async def changed(leases: Leases, work: Callable[[LeaseTables], Any]) -> Any:
            done = await change(leases, work)
            passed, self._done = self._done, []
            for point in passed:
                self.at(point)
            return done

        _replace(Leases, "change", changed)

    def _watch_appends(self) -> None:
        append = PostgresStore.append

        def appended(store: PostgresStore, batch: Sequence[Any]) -> Any:
            carries = any(part.carried for part in batch)
            for point in ("before append", "in an append"):
                if carries:
                    self.at(point)
            done = append(store, batch)
            if carries:
                self.at("appended")
            return done

        _replace(PostgresStore, "append", appended)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(PATIENCE_S)  # other threads may run until the signal arrives, this one must not


def _replace(owner: Any, name: str, value: object) -> None:
    assert hasattr(owner, name), f"{owner} has no {name} any more"
    setattr(owner, name, value)


def child(url: str, deeds: Path, point: str, nth: int, late_s: float) -> None:
    """Be the owner or the client, until the point is reached."""
    for owner, name, value in QUICK:
        setattr(owner, name, value)
    Reaper(point, nth, late_s).install()

    async def work() -> None:
        if point in OF_OWNERS:
            async with owning(url, deeds, "dying"):
                await asyncio.sleep(PATIENCE_S)
        else:
            async with Runtime.connect(url) as client:
                await results(client)

    asyncio.run(work())
