"""A log on PostgreSQL beside one in SQLite, as ratios within one run.

    python benchmarks/postgres.py [--rounds 5] [--seconds 1.0] [--folder FOLDER] [--work append w1 ...]

A private server is started in the folder, with its durability on, and shares the processors with its clients.

    append     microseconds an event, and of them the client's CPU, by the size of the batch
    writers    events a second of two processes, against one
    takeover   milliseconds to take over a session of 100,000 events
    followers  appends beside a client that follows 5,000 idle sessions, against none, and the client's CPU
    notified   the same with each append to another one of the sessions, whose owner notifies the client
    latency    milliseconds until an idle follower has an event, with notifications and without
    w1         the fan-out of the peers' workloads (needs CALLBOARD_BENCH, see README.md)
    network    the same with 5 ms more for each round trip to the server

Rounds alternate between the stores, and each ratio is of the medians.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from log_append import event  # noqa: E402  # after the folder of the tests is on the path

from callboard.runtime.cluster.announcing import Announcer  # noqa: E402  # as above
from callboard.runtime.cluster.client import Client  # noqa: E402  # as above
from callboard.runtime.log.opening import open_log  # noqa: E402  # as above
from callboard.runtime.log.postgres.cluster import Leases  # noqa: E402  # as above
from callboard.runtime.log.postgres.leases import LeaseTables  # noqa: E402  # as above
from callboard.runtime.log.postgres.log import PostgresLog  # noqa: E402  # as above
from callboard.runtime.log.protocol import Append, Head  # noqa: E402  # as above
from tests.postgres_server import Server, started  # noqa: E402  # as above

DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "256MB",
}
BATCHES = (1, 16, 128)
LONG = 100_000
FOLLOWED = 5_000
ADDED_MS = 5


async def append(address: str, batch: int, seconds: float) -> tuple[float, float]:
    """Return the microseconds an event, and of them the CPU of this process."""
    log = open_log(address)
    await log.open()
    name = f"s{time.monotonic_ns()}"
    epoch, seqs, done = await log.create(name, 1, ""), count(1), 0
    begun, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - begun < seconds:
        events = [event(seq) for seq in islice(seqs, batch)]
        (answer,) = await log.append([Append(name, done, epoch, events)])
        assert isinstance(answer, Head), answer
        done += batch
    took, used = time.perf_counter() - begun, time.process_time() - used
    await log.close()
    return took / done * 1e6, used / done * 1e6


def appends(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare the appends of both stores."""
    names = f"{'postgres us':>13}{'client CPU':>12}{'sqlite us':>11}{'CPU':>7}{'ratio':>8}"
    print(f"{'append':<10}{'batch':>6}{names}")
    for batch in BATCHES:
        found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(rounds):
            for store, address in (("pg", server.url()), ("lite", str(folder / f"{batch}-{number}.db"))):
                found[store].append(asyncio.run(append(address, batch, seconds)))
        (pg, pg_cpu), (lite, lite_cpu) = (
            [statistics.median(column) for column in zip(*found[store], strict=True)]
            for store in ("pg", "lite")
        )
        row = f"{pg:>13.1f}{pg_cpu:>12.1f}{lite:>11.1f}{lite_cpu:>7.1f}{pg / lite:>8.2f}"
        print(f"{'':<10}{batch:>6}{row}")


def writers(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare two processes with one."""
    command = [sys.executable, __file__, "--one-writer", server.url(), "--seconds", str(seconds)]

    def rate(number: int) -> float:
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(number)]
        return sum(float(one.communicate()[0]) for one in running)

    rates = [(rate(1), rate(2)) for _ in range(rounds)]
    one, two = (statistics.median(column) for column in zip(*rates, strict=True))
    print(f"writers   one {one:,.0f} events/s, two {two:,.0f}: {two / one:.2f}")


def takeover(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Time the takeover of a long session."""

    async def work(address: str) -> float:
        log = open_log(address)
        await log.open()
        epoch, seqs = await log.create("long", 1, ""), count(1)
        for first in range(0, LONG, 2_000):
            await log.append([Append("long", first, epoch, [event(seq) for seq in islice(seqs, 2_000)])])
        times = []
        for _ in range(max(rounds, 5)):
            begun = time.perf_counter()
            await log.take_over("long")
            times.append(time.perf_counter() - begun)
        await log.close()
        return statistics.median(times) * 1e3

    found = {
        name: asyncio.run(work(one)) for name, one in (("pg", server.url()), ("lite", str(folder / "l.db")))
    }
    print(f"takeover  {found['pg']:.1f} ms of {LONG:,} events; sqlite {found['lite']:.1f} ms")


async def follow(address: str) -> None:
    """Follow many sessions in one client, until the process is ended."""
    async with Client.at(address) as client:

        async def one(number: int) -> None:
            async for _ in client.stream(f"f{number}", after=0):
                pass

        async with asyncio.TaskGroup() as group:
            for number in range(FOLLOWED):
                group.create_task(one(number))
            await asyncio.sleep(8)  # by then they ask at their slowest pace
            print("ready", flush=True)


async def make_followed(address: str, sessions: int = FOLLOWED) -> None:
    """Make the sessions that are followed."""
    log = open_log(address)
    await log.open()
    for number in range(sessions):
        await log.create(f"f{number}", 1, "")
    await log.close()


class Owner:
    """The owner of the followed sessions, which appends to them one after the other."""

    def __init__(self, log: PostgresLog) -> None:
        self.log = log
        self.live_sessions: dict[str, object] = {}
        self.announcer = Announcer(cast("Any", self), log.address)
        self._heads = [0] * FOLLOWED
        self._epochs = [1] * FOLLOWED
        self._turns = count()

    async def look(self, leases: Leases, number: int) -> None:
        """Learn which sessions are followed, as with each look at the commands."""
        self.announcer.take(await leases.change(self.announcer.look(number, ())), leases.cipher)

    async def append(self, batch: int, *, is_notified: bool) -> str:
        """Append some events to the next session. Return its id."""
        at = next(self._turns) % FOLLOWED
        name, head = f"f{at}", self._heads[at]
        if not head:
            self._epochs[at], _ = await self.log.take_over(name)
        part = Append(name, head, self._epochs[at], [event(seq) for seq in range(head + 1, head + batch + 1)])
        (answer,) = await self.log.append([part])
        assert isinstance(answer, Head), answer
        self._heads[at] += batch
        if is_notified:
            self.announcer.on_stored([part])
        return name


@asynccontextmanager
async def owner_of_all(address: str, sessions: int = FOLLOWED) -> AsyncIterator[tuple[Owner, Leases, int]]:
    """Hold all followed sessions."""
    log = PostgresLog(address)
    await log.open()
    owner = Owner(log)
    async with log.leases() as leases:

        def hold(tables: LeaseTables) -> int:
            number = tables.register("benchmark", (), 0, 3_600_000)
            for one in range(sessions):
                tables.hold(number, f"f{one}", "host", steal=True)
            return number

        number = await leases.change(hold)
        yield owner, leases, number
        await owner.announcer.aclose()
    await log.close()


@contextmanager
def following(address: str) -> Iterator[int]:
    """Run a client that follows all sessions. Yield its process."""
    command = [sys.executable, __file__, "--follow", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            yield running.pid
        finally:
            running.kill()


def followers(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare appends with and without a client that follows many sessions."""
    batch, times = BATCHES[1], []
    url = server.url("idle")
    asyncio.run(make_followed(url))
    with following(url) as process:
        used, went = _cpu_s(process), 0.0
        for _ in range(rounds):
            os.kill(process, signal.SIGSTOP)
            alone, _ = asyncio.run(append(url, batch, seconds))
            os.kill(process, signal.SIGCONT)
            begun = time.perf_counter()
            beside, _ = asyncio.run(append(url, batch, seconds))
            went += time.perf_counter() - begun
            times.append((beside, alone))
        used = _cpu_s(process) - used
    beside, alone = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"followers {FOLLOWED:,}: {beside:.1f} us an event, alone {alone:.1f}: {beside / alone:.2f}; "
        f"their client's CPU {used / went:.1%}"
    )


def notified(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare appends to followed sessions with and without notifications of them."""
    batch, url = BATCHES[1], server.url("notified")
    asyncio.run(make_followed(url))

    async def one(owner: Owner, *, is_notified: bool) -> float:
        begun, done = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            await owner.append(batch, is_notified=is_notified)
            done += batch
        return (time.perf_counter() - begun) / done * 1e6

    async def work(process: int) -> list[tuple[float, float]]:
        times = []
        async with owner_of_all(url) as (owner, leases, number):
            await owner.look(leases, number)
            for _ in range(FOLLOWED):
                await owner.append(1, is_notified=False)  # the first event of each takes the session over
            for _ in range(rounds):
                os.kill(process, signal.SIGSTOP)
                alone = await one(owner, is_notified=False)
                os.kill(process, signal.SIGCONT)
                await asyncio.sleep(1)
                times.append((await one(owner, is_notified=True), alone))
        return times

    with following(url) as process:
        times = asyncio.run(work(process))
    beside, alone = (statistics.median(column) for column in zip(*times, strict=True))
    print(f"notified  {FOLLOWED:,}: {beside:.1f} us an event, alone {alone:.1f}: {beside / alone:.2f}")


def latency(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Measure how late an idle follower has an event."""

    async def one(*, is_notified: bool) -> float:
        url, found, sessions = server.url(f"late_{is_notified}".lower()), [], max(rounds, 5)
        await make_followed(url, sessions)
        async with owner_of_all(url, sessions) as (owner, leases, number), Client.at(url) as client:
            for turn in range(sessions):
                stream = client.stream(f"f{turn}", after=0)
                item = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(2.5 + turn * 0.37 % 1)  # not always at the same time before its next turn
                if is_notified:
                    await owner.look(leases, number)
                    await asyncio.sleep(0.3)
                await owner.append(1, is_notified=is_notified)
                begun = time.perf_counter()
                await item
                found.append(time.perf_counter() - begun)
                await stream.aclose()
        return statistics.median(found) * 1e3

    late, soon = asyncio.run(one(is_notified=False)), asyncio.run(one(is_notified=True))
    print(f"latency   {soon:.1f} ms, without notifications {late:.1f}: {soon / late:.3f}")


def _cpu_s(process: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def w1(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare the fan-out on both stores."""
    pg, lite = fan_outs({"postgres": server.url, "sqlite": None}, folder, rounds)
    print(f"w1        {pg:.0f} ms, sqlite {lite:.0f} ms: {pg / lite:.2f}")


def network(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare the fan-out on a server that is far away with that on SQLite."""
    far = Server(folder / "far")
    far.home.mkdir()
    sockets = [str(home / ".s.PGSQL.5432") for home in (far.home, server.home)]
    between = subprocess.Popen(
        [sys.executable, HERE / "slow_network.py", *sockets, str(ADDED_MS)], stdout=subprocess.PIPE
    )
    try:
        assert between.stdout is not None
        between.stdout.readline()
        pg, lite = fan_outs({"far": far.url, "sqlite": None}, folder, rounds)
    finally:
        between.terminate()
        between.wait()
    print(f"network   {pg:.0f} ms with {ADDED_MS} ms added, sqlite {lite:.0f} ms: {pg / lite:.2f}")


def fan_outs(
    stores: Mapping[str, Callable[[str], str] | None], folder: Path, rounds: int
) -> tuple[float, ...]:
    """Return the milliseconds of the fan-out on each store: one with schemas by address, or SQLite."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        for store, url in stores.items():
            place = folder / f"w1-{store}-{number}-{time.monotonic_ns()}"
            place.mkdir()
            more = {} if url is None else {"CALLBOARD_LOG_URL": url(f"{store}_{number}")}
            done = subprocess.run(
                [sys.executable, str(HERE / "peer_callboard.py"), "w1", "full", str(place)],
                env={**os.environ, **more},
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(done.stderr[-2_000:])
            row = json.loads(done.stdout.strip().splitlines()[-1])
            found[store].append(float(row["wall_s"]))
    return tuple(statistics.median(times) * 1e3 for times in found.values())


WORKS: dict[str, Callable[[Server, Path, int, float], None]] = {
    "append": appends,
    "writers": writers,
    "takeover": takeover,
    "followers": followers,
    "notified": notified,
    "latency": latency,
    "w1": w1,
    "network": network,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk to measure"
    )
    parser.add_argument("--work", nargs="+", choices=WORKS, default=[*WORKS])
    parser.add_argument("--one-writer", default="", help=argparse.SUPPRESS)
    parser.add_argument("--follow", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        asyncio.run(follow(options.follow))
        return
    if options.one_writer:
        took, _ = asyncio.run(append(options.one_writer, 128, options.seconds))
        print(1e6 / took)
        return
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="cb-") as name:
        Path(name).chmod(0o755)  # the server runs as another user where this one is root
        with started(Path(name), **DURABLE) as server:
            for work in options.work:
                WORKS[work](server, Path(name), options.rounds, options.seconds)


if __name__ == "__main__":
    main()
