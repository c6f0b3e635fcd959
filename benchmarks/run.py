"""callboard beside the hand-written floor, round by round, in one table.

    python benchmarks/run.py [--rounds 5] [--work w1 w2 w3 live] [--out FILE]

Each row is one process; ratios are of the medians within this run, since machines are noisy.
"""

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from bench_folder import bench_folder

HERE = Path(__file__).resolve().parent

Row = dict[str, object]


def one(script: Path, *arguments: str) -> Row:
    """Run one process and return its row. Raises SystemExit if it fails."""
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{script.name} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def stored_bytes(folder: Path) -> int:
    """Count the bytes of the database with its WAL written back."""
    total = 0
    for path in folder.rglob("*.db"):
        database = sqlite3.connect(path)
        database.execute("pragma wal_checkpoint(truncate)")
        database.close()
        total += path.stat().st_size
    return total


def measure(work: str, temp: Path, bench: Path) -> list[Row]:
    """Run one round of a workload."""
    floor, ours = bench / "floor_loop.py", HERE / "peer_callboard.py"
    if work == "live":
        return [one(HERE / "live_agents.py", str(temp / "live"))]
    if work in ("w1", "w2"):
        variants = [(floor, "row-normal"), (floor, "row-full"), (floor, "batch-full"), (ours, "full")]
        variants += [(ours, "process"), (ours, "policy")] if work == "w1" else []
        return [
            one(script, work, variant, str(temp / f"{script.stem}-{variant}")) for script, variant in variants
        ]
    rows = []
    for script, variant in ((floor, "row-normal"), (ours, "full")):
        for turns in ("200", "400", "800"):
            folder = temp / f"{script.stem}-{turns}"
            row = one(script, "w3", variant, str(folder), "--turns", turns)
            rows.append({**row, "stored": stored_bytes(folder)})
        rows.append(one(script, "w4", variant, str(folder)))
    return rows


def table(rows: list[Row]) -> list[str]:
    """Write one line for each kind of row, with medians and ratios."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["workload"], row.get("turns", 0), row["peer"], row.get("variant", "")].append(row)

    def mid(group: list[Row], name: str) -> float:
        return statistics.median(float(str(row.get(name) or 0)) for row in group)

    floors = {
        key[:2]: mid(group, "wall_s") for key, group in groups.items() if key[2:] == ("floor", "row-normal")
    }
    lines = [
        "| work | turns | program | variant | runs | wall s | us/turn | x row-normal floor | wall/ideal "
        "| KiB/turn | events | events/s | peak RSS MiB |",
        "|---" * 13 + "|",
    ]
    for key, group in sorted(groups.items(), key=lambda item: str(item[0])):
        work, turns, peer, variant = key
        wall, ideal, events = mid(group, "wall_s"), mid(group, "ideal_s"), mid(group, "events")
        count = float(str(turns or 1))
        walls = [mid([row], "wall_s") for row in group]
        cells = [
            str(work),
            str(turns or ""),
            str(peer),
            str(variant),
            str(len(group)),
            f"{wall:.4g} ({min(walls):.4g}..{max(walls):.4g})",
            f"{mid(group, 'us_per_turn'):.0f}" if "us_per_turn" in group[0] else "",
            f"{wall / floors[key[:2]]:.2f}" if key[:2] in floors and peer != "floor" else "",
            f"{wall / ideal:.2f}" if ideal else "",
            f"{mid(group, 'stored') / 1024 / count:.2f}" if "stored" in group[0] else "",
            f"{events:.0f}" if events else "",
            f"{events / wall:.0f}" if events else "",
            f"{mid(group, 'rss_mb'):.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    spins = [float(str(row["spin_ms"])) for row in rows if "spin_ms" in row]
    if spins:
        lines.append(
            f"\nspin_ms (a fixed piece of Python): median {statistics.median(spins):.1f}, "
            f"{min(spins):.1f}..{max(spins):.1f}; Python {sys.version.split()[0]}, "
            f"SQLite {sqlite3.sqlite_version}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", nargs="+", default=["w1", "w2", "w3", "live"])
    parser.add_argument("--out", type=Path, help="append the rows to this file")
    args = parser.parse_args()
    bench = bench_folder()
    rows: list[Row] = []
    for work in args.work:
        for turn in range(1 if work in ("w2", "live") and args.rounds < 3 else args.rounds):
            with tempfile.TemporaryDirectory() as temp:
                found = measure(work, Path(temp), bench)
            rows += found
            print(f"{work} round {turn + 1}: " + ", ".join(f"{r['wall_s']}" for r in found), file=sys.stderr)
            if args.out:
                with args.out.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
