"""Measure the events a second that the SQLite log stores durably, by the size of its batches.

    python benchmarks/log_append.py [--seconds 2] [--batch 1 16 128 1024] [--folder FOLDER]

Each batch is one `append`, awaited before the next: one transaction and, with durability "full", one fsync.
Bodies have 180 bytes, as in a turn with one tool call. The target is 20,000 events/s at a batch of 128
with "full". What the disk itself gives is measured beside it: an fsync after every 8 KiB written.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from itertools import count, islice
from pathlib import Path

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.runtime.log.opening import open_log
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.meta import Durability

BODY_BYTES = 180
TARGET_BATCH, TARGET_EVENTS_S = 128, 20_000
_FILL = "r" * (BODY_BYTES - len(encode(Cancel(""))) - len(',"reason":""'))


def event(seq: int) -> Event:
    return Event(seq, 1_700_000_000_000 + seq, "host.1", "supervisor", seq - 1, Cancel(_FILL))


async def rate(path: Path, durability: Durability, batch: int, seconds: float) -> tuple[float, list[float]]:
    """Events a second, and the seconds that each commit took."""
    log = open_log(path, durability)
    await log.open()
    epoch = await log.create("s", 1, "")
    took: list[float] = []
    seqs = count(1)
    begun = time.perf_counter()
    while (now := time.perf_counter()) - begun < seconds:
        events = [event(seq) for seq in islice(seqs, batch)]
        (answer,) = await log.append([Append("s", events[0].seq - 1, epoch, events)])
        assert isinstance(answer, Head), answer
        took.append(time.perf_counter() - now)
    elapsed = time.perf_counter() - begun
    await log.close()
    return len(took) * batch / elapsed, took


def syncs(folder: Path, seconds: float) -> float:
    """Measure the syncs a second of the disk, one after every 8 KiB."""
    done, begun = 0, time.perf_counter()
    with (folder / "syncs").open("wb", buffering=0) as file:
        while time.perf_counter() - begun < seconds:
            file.write(bytes(8_192))
            os.fsync(file.fileno())
            done += 1
    return done / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 128, 1_024])
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"disk: {syncs(folder, options.seconds / 2):,.0f} syncs/s of 8 KiB")
        print(f"{'durability':<12}{'batch':>7}{'events/s':>12}{'median ms':>12}{'p99 ms':>10}")
        for durability in ("full", "process"):
            for batch in options.batch:
                path = folder / f"{durability}-{batch}.db"
                found, took = asyncio.run(rate(path, durability, batch, options.seconds))
                p99 = statistics.quantiles(took, n=100)[98] if len(took) > 1 else took[0]
                median = statistics.median(took) * 1_000
                print(f"{durability:<12}{batch:>7,}{found:>12,.0f}{median:>12.2f}{p99 * 1_000:>10.2f}")
                if durability == "full" and batch == TARGET_BATCH:
                    verdict = "reached" if found >= TARGET_EVENTS_S else "not reached"
                    print(f"{'':<12}target {TARGET_EVENTS_S:,} events/s: {verdict}")


if __name__ == "__main__":
    main()
