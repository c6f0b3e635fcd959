"""Count the processor instructions of the reference workload with callgrind.

    python benchmarks/instructions.py CHECKOUT [--than BEFORE] [--work w1 w2 w3 w4]

Needs CALLBOARD_BENCH (see README.md) and valgrind. Prints a line for each workload: the instructions of an
event between the start and the stop of the run, and their ratio to another checkout's.

Clocks of shared machines differ by more than a tenth from run to run. Counts of the same code differ by about
a thousandth, because nothing in a counted run depends on time: its loop has a clock of its own, and a commit
takes a fixed number of passes of the loop. With real commits the load of the machine decides how many there
are, between 12 and 66 in w3, and the count differs by a tenth. The counts do not tell the cost of waiting.
"""

import argparse
import asyncio
import concurrent.futures
import json
import os
import re
import runpy
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench_folder import bench_folder

SIZES = {"w1": [], "w2": ["--agents", "200"], "w3": ["--turns", "400"], "w4": ["--turns", "400"]}
"""Smaller than the workloads by default: a counted run takes fifty times as long."""

# As on two idle cores, where w1 takes 9 to 12 passes for each commit, w2 8, and w3 12 to 27.
PASSES_PER_COMMIT: Final = 10
PASS_S: Final = 0.000_2  # of the loop's own clock

_COUNT = re.compile(r"Collected : (\d+)")


class _Polls(selectors.DefaultSelector):
    """Waits for no timer: the clock jumps to it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += PASS_S
        found = super().select(timeout and 0)
        if timeout and not found:
            self.now += timeout
        return found


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose clock counts its passes."""

    def __init__(self) -> None:
        self._polls = _Polls()
        super().__init__(self._polls)

    def time(self) -> float:
        return self._polls.now


class _Loops(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return _Loop()


async def _run_at_once(thread: Any, function: Callable[[], Any]) -> Any:
    """Run a function on the thread of a log while the loop waits. Return after some passes of the loop."""
    done: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def settle() -> None:
        try:
            done.set_result(function())
        except BaseException as error:
            done.set_exception(error)

    thread._connection._tx.put_nowait((None, settle))
    concurrent.futures.wait([done])
    for _ in range(PASSES_PER_COMMIT):
        await asyncio.sleep(0)
    return done.result()


def child(checkout: Path, arguments: list[str]) -> None:
    """Run the program of a checkout, and count between its start and its stop only."""
    sys.path.insert(0, str(bench_folder()))
    import workload

    from callboard.runtime.log.sqlite.thread import SQLiteThread

    asyncio.set_event_loop_policy(_Loops())
    SQLiteThread.run = _run_at_once
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
