"""Run clusters of growing size, each of which loses a tenth of its workers, and print where they bend.

    python -m tests.growth [--workers 10 30 100 300 1000] [--sessions 10000] [--picture FILE]

sessions: of each worker, so 1,000 workers have 10 million. The figures of the calm are means over the seconds
before the loss. The picture is that of `docs/growth.md`.
"""

import argparse
from pathlib import Path
from typing import Final, NamedTuple

from callboard.actors.cluster.leases import LEASE_MS
from tests.growth.world import Plan, Second, World
from tools.svg import picture

CALM: Final = slice(8, 18)
LOSE_MS: Final = 20_000
DURATION_MS: Final = 120_000


class Row(NamedTuple):
    """A cluster. home_s: from the end of the lost leases until the last of their sessions has a worker.

    None if it had none at the end of the run.
    """

    workers: int
    events: float
    log_mb: float
    cores: float
    batch: float
    cut_s: float
    home_s: float | None


def row(workers: int, sessions: int, cores: int) -> Row:
    """Run a cluster and return its figures."""
    plan = Plan(
        workers, workers * sessions, cores=cores, lost=max(1, workers // 10), lose_ms=LOSE_MS, set_back_ms=500
    )
    world, found = World(plan), list[Second]()
    begins = (LOSE_MS + LEASE_MS) // 1_000 + 1
    while len(found) < begins or (found[-1].waiting and world.now < DURATION_MS):
        world.run(world.now + 1_000)
        found = world.seconds
    calm = found[CALM]
    events, commits = (sum(getattr(one, name) for one in calm) for name in ("events", "commits"))
    return Row(
        workers,
        events / len(calm),
        sum(one.log_bytes for one in calm) / len(calm) / 1e6,
        sum(one.cpu for one in calm) / len(calm) * cores,
        events / max(1, commits),
        max(one.cut_ms for one in calm) / 1_000,
        None if found[-1].waiting else len(found) - begins + 1.0,
    )


def drawn(rows: list[Row], cores: int) -> str:
    """Draw the busy cores, the age of the oldest share, and the time until lost sessions run again."""
    last = rows[-1]
    lines = (
        (f"busy cores of {cores}", [one.cores for one in rows], float(cores)),
        ("seconds between two cuts of the shares", [one.cut_s for one in rows], 1.0),
        (
            "seconds until the sessions of a tenth of the workers run again",
            [one.home_s for one in rows],
            None,
        ),
    )
    parts, top = list[str](), 14
    for name, values, goal in lines:
        most = max([one for one in values if one is not None] + [goal or 0]) or 1
        parts.append(f'<text x="10" y="{top + 10}">{name}</text>')
        for at, (one, value) in enumerate(zip(rows, values, strict=True)):
            x, height = 20 + at * 120, 0 if value is None else value / most * 80
            said = f"over {DURATION_MS // 1_000} s" if value is None else f"{value:,.1f}"
            parts.append(
                f'<rect class="box" x="{x}" y="{top + 116 - height:.1f}" width="60" height="{height:.1f}"/>'
            )
            parts.append(f'<text class="small" x="{x}" y="{top + 110 - height:.1f}">{said}</text>')
            parts.append(f'<text class="small" x="{x}" y="{top + 132}">{one.workers:,} workers</text>')
        if goal is not None:
            y = top + 116 - goal / most * 80
            parts.append(f'<path class="rail" d="M10 {y:.1f}H{20 + len(rows) * 120}"/>')
        top += 156
    return picture(f"Clusters of up to {last.workers:,} workers, and where they bend", 640, top, parts)


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 30, 100, 300, 1_000])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--cores", type=int, default=8)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    print(
        "| workers | sessions | events/s | log MB/s | busy cores | events a commit | cut of shares | home |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    rows = []
    for workers in given.workers:
        rows.append(one := row(workers, given.sessions, given.cores))
        home = f"over {DURATION_MS // 1_000} s" if one.home_s is None else f"{one.home_s:,.0f} s"
        print(
            f"| {workers:,} | {workers * given.sessions:,} | {one.events:,.0f} | {one.log_mb:,.1f} | "
            f"{one.cores:,.1f} | {one.batch:,.1f} | {one.cut_s:,.1f} s | {home} |",
            flush=True,
        )
    if given.picture is not None:
        given.picture.write_text(drawn(rows, given.cores))


if __name__ == "__main__":
    main()
