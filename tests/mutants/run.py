"""The campaign: every mutant against FIFO, the unit tests and the explorer; then the page of the results.

    python -m tests.mutants.run                      all mutants; prints the page
    python -m tests.mutants.run racer-forgotten ...  only these
    python -m tests.mutants.run --write              all mutants; rewrites tests/mutants/RESULTS.md
    python -m tests.mutants.run --write --kept FILE  the same; FILE keeps measurements over a break
    python -m tests.mutants.run --write NAME ...     only these; the page keeps its other rows, and says so

Each measurement is a process of its own, with the mutant inserted before callboard is imported. The
unchanged core has to pass every one of them first.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final, TypeAlias

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.seeded import MUTANTS
from tests.mutants.table import NOT_EXPLAINED, Measured, later_of, page, read_rows

PAGE: Final = ROOT / "tests" / "mutants" / "RESULTS.md"
RUNS: Final = 10_000
SEEDS: Final = 3
PARTS_OF_PORTFOLIO: Final = 4
"""A scheduler alone gets the share of the runs that it has in the portfolio."""

SCHEDULERS: Final = "portfolio,random,pos,pct,delays"
TIMEOUT_S: Final = 1_800
THE_CORE: Final = Mutant("none", "The unchanged core.", "", "", "")

MEASURED_WITH: Final = ("actors/**/*.py", "replay/**/*.py", "tests/actors/**/*.py", "tests/mutants/*.py")
"""Sources that a measurement depends on: a kept one counts only for the code that it was made with."""

Task: TypeAlias = tuple[str, ...]
Told: TypeAlias = dict[str, object]


def tasks(schedulers: Sequence[str], runs: int, seeds: int) -> list[Task]:
    """List the measurements of a mutant: the portfolio with several seeds, each scheduler alone with one."""
    found: list[Task] = [("fifo",), ("units",)]
    for scheduler in schedulers:
        if scheduler == "portfolio":
            found += [("explore", scheduler, str(seed), str(runs)) for seed in range(seeds)]
        else:
            found.append(("explore", scheduler, "0", str(runs // PARTS_OF_PORTFOLIO)))
    return found


class Kept:
    """The measurements, each made once. file: keeps them for a later call; None: they are not kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = Lock()
        self._told: dict[str, Told] = {}
        self._code = blake2b(b"".join(_sources()), digest_size=8).hexdigest()
        if file is not None and file.exists():
            self._told = json.loads(file.read_text())

    def has(self, mutant: Mutant, task: Task) -> bool:
        """Return True if this was measured."""
        return self._key(mutant, task) in self._told

    def measure(self, mutant: Mutant, task: Task) -> Told:
        """Make one measurement in a process of its own. Raises RuntimeError if that process fails."""
        key = self._key(mutant, task)
        if key not in self._told:
            told = _measured(mutant, task)
            with self._lock:
                self._told[key] = told
                if self._file is not None:
                    self._file.write_text(json.dumps(self._told, indent=0))
        return self._told[key]

    def _key(self, mutant: Mutant, task: Task) -> str:
        return "/".join((mutant.name, self._code, *task))


def _sources() -> Iterator[bytes]:
    for pattern in MEASURED_WITH:
        for path in sorted(ROOT.glob(pattern)):
            if path.name not in ("run.py", "table.py", "test_mutants.py"):
                yield path.read_bytes()


def _measured(mutant: Mutant, task: Task) -> Told:
    command = [sys.executable, "-m", "tests.mutants.child", mutant.name, *task]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed:\n{done.stderr[-2_000:]}")
    told: Told = json.loads(done.stdout.splitlines()[-1])
    return told


class Progress:
    """Progress lines on stderr. whole: the number of mutants to measure."""

    def __init__(self, whole: int) -> None:
        self._whole = whole
        self._done = 0
        self._start = monotonic()
        self._lock = Lock()

    def done(self, mutant: Mutant, told: dict[Task, Told]) -> None:
        """Print a line for one more measured mutant."""
        with self._lock:
            self._done += 1
            left = self._whole - self._done
            minutes = (monotonic() - self._start) / self._done * left / 60
            how = ", ".join(f"{' '.join(task[:3])}: {_how(one)}" for task, one in told.items())
            print(
                f"{self._done} of {self._whole}, about {minutes:.0f} min left; {mutant.name}: {how}",
                file=sys.stderr,
                flush=True,
            )


def _how(told: Told) -> str:
    if not told["killed"]:
        return "not found"
    return f"run {told['runs']:,}" if "runs" in told else "found"


def measure_all(mutants: Sequence[Mutant], wanted: list[Task], jobs: int, kept: Kept) -> list[Measured]:
    """Measure the core, which must pass, and every mutant. Raises RuntimeError if the core fails."""
    for task in wanted:
        told = kept.measure(THE_CORE, task)
        if told["killed"]:
            raise RuntimeError(f"the unchanged core does not pass {' '.join(task)}: {told}")
    missing = [one for one in mutants if not all(kept.has(one, task) for task in wanted)]
    progress = Progress(len(missing))

    def measure(mutant: Mutant) -> None:
        progress.done(mutant, {task: kept.measure(mutant, task) for task in wanted})

    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(measure, missing):
            pass
    return [Measured(one, {task: kept.measure(one, task) for task in wanted}) for one in mutants]


def scenarios() -> int:
    """Count the scenarios in another process, since this one imports nothing of callboard."""
    code = "from tests.mutants.scenarios import SCENARIOS; print(len(SCENARIOS))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description="Hunt our own mutants.")
    parser.add_argument("names", nargs="*", help="mutants; default: all")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="runs after which a mutant counts as not found"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of the portfolio")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--schedulers", default=SCHEDULERS, help="names, separated by commas")
    parser.add_argument("--kept", type=Path, help="a file that keeps measurements, to continue after a break")
    parser.add_argument("--write", action="store_true", help="rewrite tests/mutants/RESULTS.md")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MUTANTS]:
        parser.error(f"there is no mutant {', '.join(unknown)}; see tests/mutants/seeded.py")
    if options.write and options.names:
        rowless = MUTANTS.keys() - options.names - read_rows(PAGE.read_text(), MUTANTS).keys()
        if rowless:
            parser.error(f"the page has no row for {', '.join(sorted(rowless))}: name them too, or none")
    return options


def with_kept_rows(measured: Sequence[Measured], written: str) -> list[Measured]:
    """Return these measurements and, for all other mutants, those that the written page tells."""
    rows = read_rows(written, MUTANTS) | {one.mutant.name: one for one in measured}
    return [rows[name] for name in MUTANTS]


def main() -> int:
    """Run the command line. Return 1 if a mutant is not found and has no note."""
    options = _options()
    chosen = [MUTANTS[name] for name in options.names] or list(MUTANTS.values())
    wanted = tasks(options.schedulers.split(","), options.runs, options.seeds)
    measured = measure_all(chosen, wanted, options.jobs, Kept(options.kept))
    later: set[str] = set()
    if options.write and options.names:
        former = PAGE.read_text()
        measured, later = with_kept_rows(measured, former), later_of(former) | set(options.names)
    written = page(measured, options.runs, scenarios(), later)
    if options.write:
        PAGE.write_text(written)
    else:
        print(written)
    if NOT_EXPLAINED in written:
        print(
            "a mutant is not found: add a rule or a session, or give the reason in its `note`",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
