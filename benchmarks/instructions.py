"""Count the processor instructions of the reference workload with callgrind.

    python benchmarks/instructions.py CHECKOUT [--than BEFORE] [--work w1 w2 w3 w4]

Needs CALLBOARD_BENCH (see README.md) and valgrind. Prints a line for each workload: the instructions of an
event between the start and the stop of the run, and their ratio to another checkout's.

Clocks of shared machines differ by more than a tenth from run to run. Counts of the same code differ by less
than a hundredth, since only the threads take turns by chance. They do not tell the cost of waiting.
"""

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench_folder import bench_folder

SIZES = {"w1": [], "w2": ["--agents", "200"], "w3": ["--turns", "400"], "w4": ["--turns", "400"]}
"""Smaller than the workloads by default: a counted run takes fifty times as long."""

_COUNT = re.compile(r"Collected : (\d+)")


def child(checkout: Path, arguments: list[str]) -> None:
    """Run the program of a checkout, and count between its start and its stop only."""
    sys.path.insert(0, str(bench_folder()))
    import workload

    start, stop = workload.Run.start, workload.Run.stop

    def counted_start(run: Any) -> None:
        start(run)
        switch("on")

    def counted_stop(run: Any) -> None:
        switch("off")
        stop(run)

    workload.Run.start, workload.Run.stop = counted_start, counted_stop
    workload.spin_ms = lambda: 0.0  # it measures the speed of the machine, which says nothing here
    program = checkout / "benchmarks" / "peer_callboard.py"
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    runpy.run_path(str(program), run_name="__main__")


def switch(state: str) -> None:
    """Let callgrind count from here on, or no more."""
    subprocess.run(["callgrind_control", "-i", state, str(os.getpid())], check=True, capture_output=True)


def run(command: list[str], checkout: Path, bytecode: Path) -> subprocess.CompletedProcess[str]:
    """Run a command on a checkout, with the same order of sets every time. bytecode: its folder of `.pyc`."""
    own = {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment = {**os.environ, **own}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done


def per_event(checkout: Path, work: str) -> float:
    """Count the instructions of an event in one workload. w4 verifies the session of a w3 of its own."""
    with tempfile.TemporaryDirectory() as temp:
        program = [sys.executable, str(checkout / "benchmarks" / "peer_callboard.py")]
        arguments = ["full", str(Path(temp) / "log"), *SIZES[work]]
        bytecode = Path(temp) / "bytecode"
        # Not counted. Modules that are imported within the counted part are compiled here, and not there.
        if work == "w4":
            run([*program, "w3", *arguments], checkout, bytecode)
            run([*program, "w4", *arguments], checkout, bytecode)
        else:
            run([*program, work, "full", str(Path(temp) / "earlier"), *SIZES[work]], checkout, bytecode)
        counter = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={temp}/counts",
        ]
        counted = [sys.executable, __file__, "--child", str(checkout), work, *arguments]
        done = run([*counter, *counted], checkout, bytecode)
        count = _COUNT.search(done.stderr)
        if count is None:
            raise SystemExit(f"callgrind told no count:\n{done.stderr[-2000:]}")
        return int(count[1]) / int(json.loads(done.stdout.strip().splitlines()[-1])["events"])


def main() -> None:
    """Count, and print a line for each workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--than", type=Path, help="another checkout, to compare with")
    parser.add_argument("--work", nargs="+", choices=SIZES, default=[*SIZES])
    args = parser.parse_args()
    if shutil.which("valgrind") is None:
        raise SystemExit("instructions.py needs valgrind; install the package of that name")
    for work in args.work:
        found = per_event(args.checkout.resolve(), work)
        line = f"{work}: {found:,.0f} instructions an event"
        if args.than is not None:
            before = per_event(args.than.resolve(), work)
            line += f", {found / before:.3f} of {before:,.0f}"
        print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
