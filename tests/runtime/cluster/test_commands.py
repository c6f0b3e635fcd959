"""Commands and the deaths of owners: between any two steps of the owner, none is lost and none repeated."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from callboard.actors.protocol.client_messages import Ask, Cancel, Tell, ToolsChanged
from callboard.actors.protocol.errors import CallboardError, MisuseError, StoreFailed, UnknownName
from callboard.replay.recording import Recording
from callboard.runtime.cluster import commands as module
from callboard.runtime.cluster import standings
from callboard.runtime.cluster.client import Client
from callboard.runtime.cluster.commands import SessionCommands
from callboard.runtime.cluster.worker import ClusterWorker
from callboard.runtime.log.postgres.cluster import Leases
from callboard.runtime.log.postgres.commands import CommandRow
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.store import PostgresStore
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.runtime import Runtime
from tests.runtime.cluster.kit import LEASE_MS, World, run
from tests.waiting import until

T = TypeVar("T")
STEPS = 10  # of an owner for the commands below: its writes, and its changes of commands and leases


class Death:
    """An owner that is cut off from the server before, or just after, the work of one of its steps."""

    def __init__(self, at: int, *, is_after: bool) -> None:
        self.left, self.is_after = at, is_after
        self.has_come = asyncio.Event()

    async def step(self, work: Callable[[], Awaitable[T]]) -> T:
        self.left -= 1
        if self.left < 0 or (self.left == 0 and not self.is_after):
            self.has_come.set()
            raise StoreFailed("cut off")
        done = await work()
        if self.left == 0:
            self.has_come.set()
            raise StoreFailed("cut off")
        return done


class DyingLog(PostgresLog):
    """A log whose owner dies at a write."""

    death: Death

    async def _write(self, work: Callable[[PostgresStore], T]) -> T:
        write = super()._write
        return await self.death.step(lambda: write(work))


async def dying_owner(world: World, death: Death) -> None:
    """Run a worker until it dies, after which its lease ends at once."""
    log = DyingLog(world.place.url)
    log.death = death
    async with Leases(world.place.url) as leases:
        change = leases.change
        dying: Any = lambda work: death.step(lambda: change(work))  # noqa: E731  # in place of a method
        leases.change = dying  # type: ignore[method-assign]  # its way to the server
        async with Runtime(log) as runtime:
            stop = asyncio.Event()
            worker = ClusterWorker(runtime, leases, [world.host()], lease_ms=LEASE_MS, name="dying")
            task = asyncio.create_task(worker.run(stop))
            await death.has_come.wait()
            stop.set()
            await asyncio.wait([task])
            task.exception()
        await change(lambda one: one._run("UPDATE {s}.workers SET ends_ms = 0 WHERE name = 'dying'"))


async def result_of(work: Awaitable[object]) -> str:
    """Return the value or the error of a command, as text."""
    try:
        return repr(await work)
    except CallboardError as error:
        return f"{type(error).__name__}: {error}"


def commands(client: Client) -> list[Awaitable[object]]:
    """Send an ask and three commands on it."""
    return [
        client.ask("s", "do it", host="host", request_id="ask"),
        client.tell("s", "host", "hurry", request_id="tell"),
        client.set_tools("s", ["put"], agent="host", request_id="tools"),
        client.cancel("s", "enough", request_id="cancel"),
    ]


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", range(1, STEPS + 1))
def test_a_command_has_one_event_and_one_result_whenever_its_owner_dies(
    world: World, monkeypatch: pytest.MonkeyPatch, at: int, is_after: bool
) -> None:
    monkeypatch.setattr(standings, "PAUSE_S_MAX", 0.02)

    async def scene() -> None:
        async with Runtime.connect(world.place.url) as client:
            await client.submit("s", "do it", host="host", request_id="ask")
            results = [asyncio.ensure_future(result_of(one)) for one in commands(client)]
            await dying_owner(world, Death(at, is_after=is_after))
            async with world.worker(world.host()):
                first = await asyncio.gather(*results)
                again = await asyncio.gather(*(result_of(one) for one in commands(client)))
            assert first == again
            assert "Outcome(" in first[0]
            assert first[2] == "None"
        with Recording.open(world.place.url, "s") as recording:
            counts = Counter(type(one.body) for one in recording.events_after(0))
            recording.verify().check()
        assert [counts[kind] for kind in (Ask, Tell, ToolsChanged)] == [1, 1, 1], counts
        assert counts[Cancel] <= 1  # the ask may have ended before: its tool was interrupted

    run(scene)


class SlowLog(PostgresLog):
    """A log whose appends take longer than the time between two looks at the commands."""

    async def append(self, batch: Sequence[Append]) -> list[Head | Exception]:
        await asyncio.sleep(0.1)
        return await super().append(batch)


def test_a_command_whose_event_is_not_stored_yet_is_not_carried_out_again(world: World) -> None:
    async def scene() -> None:
        world.holds.set()
        stop = asyncio.Event()
        async with (
            Runtime.connect(world.place.url) as client,
            Leases(world.place.url) as leases,
            Runtime(SlowLog(world.place.url)) as runtime,
        ):
            worker = ClusterWorker(runtime, leases, [world.host()], lease_ms=2 * LEASE_MS)
            running = asyncio.create_task(worker.run(stop))
            await client.ask("s", "do it", host="host")
            await client.set_tools("s", ["put"], agent="host")
            stop.set()
            await running
        with Recording.open(world.place.url, "s") as recording:
            found = [one for one in recording.events_after(0) if isinstance(one.body, ToolsChanged)]
        assert len(found) == 1

    run(scene)


def test_a_command_of_a_later_release_is_refused_with_the_way_out(world: World) -> None:
    async def scene() -> None:
        async with Runtime.connect(world.place.url) as client, world.worker(world.host()):
            await world.change(lambda one: one.commands.add("s", "x", '{"command":"fly"}', "host"))
            with pytest.raises(MisuseError, match="update it"):
                await client._settled("s", "x")

    run(scene)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_command_whose_session_leaves_before_it_is_carried_out_stays_for_the_next_owner(
    monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """The lease of an owner may end between its look at the commands and the first step of one."""
    answers: list[str] = []
    row = CommandRow(1, "s", "r", '{"command":"set_tools","session":"s","tools":["put"]}', 0, "")
    runtime: Any = SimpleNamespace(live_sessions={"s": SimpleNamespace(_has_failed=False)})
    tables = SimpleNamespace(
        waiting=lambda owner: [row], answer=lambda owner, command, said: answers.append(said)
    )

    async def change(work: Callable[[Any], Any]) -> Any:
        return work(SimpleNamespace(commands=tables))

    async def carry_out(*_: object) -> None:
        if leaves:
            runtime.live_sessions.clear()
        raise UnknownName("it does not run here, or has no such tool")

    async def scene() -> None:
        writer: Any = SimpleNamespace(on_staged={})
        monkeypatch.setattr(module, "carry_out", carry_out)
        sut = SessionCommands(runtime, writer, change)
        await sut.turn(1, lambda tables: None)
        await until(lambda: not sut.is_busy("s"))

    asyncio.run(scene())
    assert len(answers) == (0 if leaves else 1)
