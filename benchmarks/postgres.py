"""A log on PostgreSQL beside one in SQLite, as ratios within one run.

    python benchmarks/postgres.py [--rounds 5] [--seconds 1.0] [--folder FOLDER] [--work append w1 ...]

A private server is started in the folder, with its durability on, and shares the processors with its clients.

    append     microseconds an event, and of them the client's CPU, by the size of the batch
    writers    events a second of two processes, against one
    takeover   milliseconds to take over a session of 100,000 events
    followers  appends beside a client that follows 5,000 idle sessions, against none, and the client's CPU
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
from collections.abc import Callable, Mapping
from itertools import count, islice
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from log_append import event  # noqa: E402  # after the folder of the tests is on the path

from callboard.runtime.cluster.client import Client  # noqa: E402  # as above
from callboard.runtime.log.opening import open_log  # noqa: E402  # as above
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
        for number in range(FOLLOWED):
            await client.log.create(f"f{number}", 1, "")

        async def one(number: int) -> None:
            async for _ in client.stream(f"f{number}", after=0):
                pass

        async with asyncio.TaskGroup() as group:
            for number in range(FOLLOWED):
                group.create_task(one(number))
            await asyncio.sleep(4)  # by then they ask at their slowest pace
            print("ready", flush=True)


def followers(server: Server, folder: Path, rounds: int, seconds: float) -> None:
    """Compare appends with and without a client that follows many sessions."""
    batch = BATCHES[1]
    times: list[tuple[float, float]] = []
    with subprocess.Popen(
        [sys.executable, __file__, "--follow", server.url()], stdout=subprocess.PIPE
    ) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            used, went = _cpu_s(running.pid), 0.0
            for _ in range(rounds):
                running.send_signal(signal.SIGSTOP)
                alone, _ = asyncio.run(append(server.url(), batch, seconds))
                running.send_signal(signal.SIGCONT)
                begun = time.perf_counter()
                beside, _ = asyncio.run(append(server.url(), batch, seconds))
                went += time.perf_counter() - begun
                times.append((beside, alone))
            used = _cpu_s(running.pid) - used
        finally:
            running.kill()
    beside, alone = (statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"followers {FOLLOWED:,}: {beside:.1f} us an event, alone {alone:.1f}: {beside / alone:.2f}; "
        f"their client's CPU {used / went:.1%}"
    )


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
