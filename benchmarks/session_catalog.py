"""The first page of sessions among many, and the commits of live sessions while a large one is deleted.

    python benchmarks/session_catalog.py [--sessions 100000] [--events 200000] [--commits 1000]
        [--per-commit 10] [--folder FOLDER]

List: the first 100 `unfinished` sessions; one in 500 is. The target is 50 ms.

Delete: 100 sessions append `--per-commit` events each to common batches, one batch after the other. First so
many commits with nothing else to do, then as many while a session of `--events` events is removed. The
slowest commit with it may take 20 ms more than the slowest without.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path

from callboard.actors.protocol.client_messages import RULES, Ask, Cancel, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import Append, EventLog, Head
from callboard.runtime.log.session_rows import SessionQuery
from callboard.runtime.sessions.catalog import Remover

LIST_TARGET_MS, DELETE_TARGET_MS = 50.0, 20.0
LIVE, PAGE = 100, 100
_FILL = "r" * 140  # bodies of 180 bytes


def event(seq: int, body: "Cancel | Ask | SessionOpened | None" = None) -> Event:
    sides = ("supervisor", "host") if body is None else ("client", "supervisor")
    return Event(seq, 1_700_000_000_000 + seq, *sides, seq - 1, body or Cancel(_FILL))


async def appended(log: EventLog, batch: list[Append]) -> None:
    for answer in await log.append(batch):
        assert isinstance(answer, Head), answer


async def filled(log: EventLog, count: int) -> None:
    """Make sessions of two events; one in 500 has an ask without an outcome."""
    opened = event(1, SessionOpened(RULES, "host", (), ModelSpec("m")))
    ask = event(2, Ask("a", Json(b'"go"')))
    names = (f"20260101-{number:010d}" for number in range(count))
    made = 0
    while chunk := list(islice(names, 1_000)):
        for name in chunk:
            await log.create(name, 1_700_000_000_000 + made, "a prompt of a few words")
            made += 1
        await appended(
            log,
            [Append(name, 0, 1, [opened, ask] if int(name[9:]) % 500 == 0 else [opened]) for name in chunk],
        )


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long it took, in milliseconds."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1_000


async def list_sessions(log: EventLog) -> None:
    """Print the times of pages of 100 sessions."""
    for what, query in (
        ("first 100 unfinished", SessionQuery(status="unfinished", limit=PAGE)),
        ("first 100 of all", SessionQuery(limit=PAGE)),
    ):
        times = [await timed(lambda query=query: log.sessions(query)) for _ in range(20)]
        print(f"{what}: first call {times[0]:.2f} ms, median {statistics.median(times):.2f} ms")
    verdict = "reached" if times[0] <= LIST_TARGET_MS else "not reached"
    print(f"target {LIST_TARGET_MS:g} ms: {verdict}")


async def large(log: EventLog, name: str, count: int) -> None:
    """Make a session of so many events."""
    await log.create(name, 1, "")
    for first in range(1, count + 1, 5_000):
        last = min(count, first + 4_999)
        await appended(log, [Append(name, first - 1, 1, [event(seq) for seq in range(first, last + 1)])])


class Live:
    """The sessions that go on."""

    def __init__(self, log: EventLog, events: int) -> None:
        self._log = log
        self._events = events
        self._heads = dict.fromkeys((f"live{number}" for number in range(LIVE)), 0)

    async def open(self) -> None:
        """Make the sessions."""
        for name in self._heads:
            await self._log.create(name, 1, "")

    async def commit(self) -> None:
        """Append to every session, in one batch."""
        count, heads = self._events, self._heads
        batch = [
            Append(name, head, 1, [event(seq) for seq in range(head + 1, head + count + 1)])
            for name, head in heads.items()
        ]
        await appended(self._log, batch)
        for name in heads:
            heads[name] += count

    async def times(self, count: int) -> list[float]:
        """Return the times of so many commits, ascending."""
        return sorted([await timed(self.commit) for _ in range(count)])


def shown(what: str, times: list[float]) -> None:
    mid, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(f"{what:<26} median {mid:6.2f} ms   p99 {p99:6.2f} ms   slowest {times[-1]:6.2f} ms")


async def delete_one(log: EventLog, events: int, commits: int, per_commit: int) -> None:
    """Print the times of commits without and with a deletion."""
    await large(log, "large", events)
    live, remover = Live(log, per_commit), Remover(log)
    await live.open()
    await live.times(50)
    without = await live.times(commits)
    shown(f"{commits:,} commits without", without)
    begun = time.perf_counter()
    marked = await timed(lambda: log.delete("large"))
    remover.start()
    during = await live.times(commits)
    await remover.finished()
    shown(f"{commits:,} commits with it", during)
    print(f"marked in {marked:.2f} ms, removed in {time.perf_counter() - begun:.1f} s")
    more = during[-1] - without[-1]
    verdict = "reached" if more <= DELETE_TARGET_MS else "not reached"
    print(f"the slowest took {more:+.1f} ms; target +{DELETE_TARGET_MS:g} ms: {verdict}")


async def run(folder: Path, options: argparse.Namespace) -> None:
    log = open_log(folder / "list.db", "process")
    await log.open()
    await filled(log, options.sessions)
    await log.close()
    log = open_log(folder / "list.db")
    await log.open()
    await list_sessions(log)
    await log.close()
    log = open_log(folder / "delete.db")
    await log.open()
    await delete_one(log, options.events, options.commits, options.per_commit)
    await log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--per-commit", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        asyncio.run(run(Path(name), options))


if __name__ == "__main__":
    main()
