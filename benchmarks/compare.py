"""Compare two checkouts on the reference workload, in alternation.

    python benchmarks/compare.py BEFORE AFTER [--rounds 8] [--work w1 w2 w3 w4]

Needs CALLBOARD_BENCH (see README.md). Prints a line for each workload, with the ratio of AFTER to BEFORE: of
the least processor times, of the least wall times, and the range of the rounds' own ratios of processor time.
The range says how noisy the machine is.
"""

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_folder import bench_folder

TURNS = "800"
Row = dict[str, Any]


def child(checkout: Path, arguments: list[str]) -> None:
    """Run the program of a checkout, and print the processor seconds between its start and its stop."""
    sys.path.insert(0, str(bench_folder()))
    import workload

    cpu = 0.0
    start, stop = workload.Run.start, workload.Run.stop

    def timed_start(run: Any) -> None:
        nonlocal cpu
        start(run)
        cpu = time.process_time()

    def timed_stop(run: Any) -> None:
        run.row["cpu_s"] = time.process_time() - cpu
        stop(run)

    workload.Run.start, workload.Run.stop = timed_start, timed_stop
    program = checkout / "benchmarks" / "peer_callboard.py"
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    runpy.run_path(str(program), run_name="__main__")


def one(checkout: Path, *arguments: str) -> Row:
    """Run one process on a checkout, and return its row."""
    command = [sys.executable, __file__, "--child", str(checkout), *arguments]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def both(checkouts: list[Path], work: str) -> list[Row]:
    """Run a workload on each checkout. w4 verifies the session of a w3 of its own."""
    rows = []
    for checkout in checkouts:
        with tempfile.TemporaryDirectory() as temp:
            turns = ["--turns", TURNS] if work in ("w3", "w4") else []
            if work == "w4":
                one(checkout, "w3", "full", temp, *turns)
            rows.append(one(checkout, work, "full", temp, *turns))
    return rows


def line(work: str, rounds: list[list[Row]]) -> str:
    """Write the ratios of a workload."""
    before, after = zip(*rounds, strict=True)
    cpu, wall = (
        min(row[name] for row in after) / min(row[name] for row in before) for name in ("cpu_s", "wall_s")
    )
    each = sorted(new["cpu_s"] / old["cpu_s"] for old, new in rounds)
    least = min(row["cpu_s"] for row in before)
    return (
        f"{work}: cpu {cpu:.3f} (from {least:.3f} s; rounds {each[0]:.2f} to {each[-1]:.2f}), wall {wall:.3f}"
    )


def main() -> None:
    """Compare, and print a line for each workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--work", nargs="+", default=["w1", "w2", "w3", "w4"])
    args = parser.parse_args()
    checkouts = [args.before.resolve(), args.after.resolve()]
    for work in args.work:
        rounds = []
        for number in range(args.rounds):
            # The first of a pair finds other caches than the second, so they take turns.
            rows = both(checkouts[:: 1 if number % 2 else -1], work)
            rounds.append(rows if number % 2 else rows[::-1])
        print(line(work, rounds), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
