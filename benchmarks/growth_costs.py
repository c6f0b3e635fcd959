"""The costs of leases, claims and shared capacity to a PostgreSQL server, for the model of growth.

    python benchmarks/growth_costs.py [--folder FOLDER]

For each statement: the processor time of the server's backends, and the bytes of its log, over some hundred
repeats. The server is a private one in the folder, with its durability on. `tests/growth/costs.py` has the
figures that it printed, and `docs/growth.md` explains them.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from callboard.actors.cluster.shares import Renewal  # noqa: E402  # after the folder is on the path
from callboard.actors.session.capacity import Capacity  # noqa: E402  # as above
from callboard.runtime.log.postgres.cluster import Leases  # noqa: E402  # as above
from callboard.runtime.log.postgres.leases import LeaseTables  # noqa: E402  # as above
from callboard.runtime.log.postgres.log import PostgresLog  # noqa: E402  # as above
from callboard.runtime.log.postgres.places import Report  # noqa: E402  # as above
from tests.postgres_server import Server, started  # noqa: E402  # as above

DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "256MB"}
REPEATS = 300
HOUR_MS = 3_600_000


class Meter:
    """The processor time of the backends, and the bytes of the server's log. Prints a line for each work."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def _now(self) -> tuple[int, int]:
        ticks = 0
        with self.server.connection() as connection:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'callboard'"
            for (process,) in connection.execute(query):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
            row: Any = connection.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
        return ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"), int(row[0])

    async def of(self, name: str, work: Callable[[int], Any], repeats: int = REPEATS, each: int = 1) -> None:
        """Measure a coroutine function. each: the things that one run does."""
        await work(-1)
        cpu, log = self._now()
        for at in range(repeats):
            await work(at)
        cpu_after, log_after = self._now()
        count = repeats * each
        print(f"{name:45}{(cpu_after - cpu) / count:8.0f} us{(log_after - log) / count:8.0f} bytes")


async def measure(server: Server) -> None:
    """Print all costs."""
    log = PostgresLog(server.url())
    await log.open()
    async with Leases(server.url()) as leases:
        meter = Meter(server)
        number = await leases.change(lambda one: one.register("w", ["host"], 10_000, HOUR_MS))

        async def renew(at: int) -> None:
            await leases.change(
                lambda one: one.renew(number, [f"s{at}" for at in range(100)], is_draining=False)
            )

        await meter.of("renewal of a lease with 100 sessions", renew)

        def submit(one: LeaseTables) -> None:
            for at in range(9_700):
                one.submit(f"s{at}", "host", f"r{at}", "Which files are here?")

        await leases.change(submit)

        async def claim(_: int) -> None:
            assert len(await leases.change(lambda one: one.claim(number, 32))) == 32

        await meter.of("claim of a session, 32 at a time", claim, 300, 32)

        async def take_over(at: int) -> None:
            if at < 0:
                for one in range(REPEATS):
                    await log.create(f"t{one}", 0, "")
            else:
                await log.take_over(f"t{at}")

        await meter.of("takeover of a session", take_over)
        for workers in (10, 100, 1_000):
            await fill(leases, f"m{workers}", workers)

            async def report(at: int, model: str = f"m{workers}") -> None:
                renewal = Renewal(number, at + 2, 5, 5, 5, 0, 10)
                await leases.share(lambda one: one.report(model, [Report(renewal)], Capacity(4_000), 60_000))

            await meter.of(f"report of capacity among {workers} workers", report)
    await log.close()


async def fill(leases: Leases, model: str, workers: int) -> None:
    """Let workers with long leases have reported their calls of a model."""
    known = "5, 5, 5, 4e12::bigint, 10, 0, 0, 0, 0, 4000, NULL, 60000"

    def work(one: LeaseTables) -> None:
        one._run(f"INSERT INTO {{s}}.capacity(model) VALUES ('{model}')")
        one._run(
            f"INSERT INTO {{s}}.places SELECT '{model}', 1000000 + g, 1, {known} "
            f"FROM generate_series(1, {workers}) AS g"
        )
        one._run("ANALYZE {s}.places")

    await leases.change(work)


def main() -> None:
    """Start a server, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    with started(parser.parse_args().folder, **DURABLE) as server:
        asyncio.run(measure(server))


if __name__ == "__main__":
    main()
