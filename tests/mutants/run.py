"""The campaign: every mutant against FIFO, the unit tests and the explorer; then the table in the docs.

    python -m tests.mutants.run                      all of it; prints the table
    python -m tests.mutants.run racer-forgotten ...  these only
    python -m tests.mutants.run --write              all of it, and docs/mutants.md anew

Each measurement is a process of its own, with the mutant put in before callboard is imported. The core as it
is has to pass every one of them first.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final, TypeAlias

from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.seeded import MUTANTS
from tests.mutants.table import Measured, page

RUNS: Final = 10_000
SEEDS: Final = 3
PARTS_OF_PORTFOLIO: Final = 4
"""A scheduler alone gets the share of the runs that it has in the portfolio."""

SCHEDULERS: Final = "portfolio,random,pos,pct,delays"
TIMEOUT_S: Final = 1_800
THE_CORE: Final = Mutant("none", "The core as it is.", "", "", "")

Task: TypeAlias = tuple[str, ...]
Told: TypeAlias = dict[str, object]


def tasks(schedulers: Sequence[str], runs: int) -> list[Task]:
    """What is measured of each mutant: the portfolio with several seeds, each scheduler alone with one."""
    found: list[Task] = [("fifo",), ("units",)]
    for scheduler in schedulers:
        if scheduler == "portfolio":
            found += [("explore", scheduler, str(seed), str(runs)) for seed in range(SEEDS)]
        else:
            found.append(("explore", scheduler, "0", str(runs // PARTS_OF_PORTFOLIO)))
    return found


class Campaign:
    """Measurements, each made once. kept: a file with those of earlier campaigns, if any."""

    def __init__(self, kept: Path | None) -> None:
        self._kept = kept
        self._lock = Lock()
        self._told: dict[str, Told] = {}
        if kept is not None and kept.exists():
            self._told = json.loads(kept.read_text())

    def measure(self, mutant: Mutant, task: Task) -> Told:
        """Make one measurement in a process of its own. Raises RuntimeError if that fails."""
        key = _key(mutant, task)
        if key not in self._told:
            told = _measured(mutant, task)
            with self._lock:
                self._told[key] = told
                if self._kept is not None:
                    self._kept.write_text(json.dumps(self._told, indent=0))
            _progress(mutant, task, told)
        return self._told[key]


def _key(mutant: Mutant, task: Task) -> str:
    change = blake2b(f"{mutant.module}\0{mutant.old}\0{mutant.new}".encode(), digest_size=8).hexdigest()
    return "/".join((mutant.name, change, *task))


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


def _progress(mutant: Mutant, task: Task, told: Told) -> None:
    how = "killed" if told["killed"] else "passes"
    after = f" in run {told['runs']:,} by {told['by']}: {told['rule']}" if "schedule" in told else ""
    print(f"{mutant.name}: {' '.join(task)}: {how}{after}", file=sys.stderr, flush=True)


def measure_all(
    mutants: Sequence[Mutant], wanted: list[Task], jobs: int, kept: Path | None
) -> list[Measured]:
    """Measure the core, which must pass, and every mutant. Raises RuntimeError if the core does not pass."""
    campaign = Campaign(kept)
    for task in [task for task in wanted if task[:2] != ("explore", "portfolio") or task[2] == "0"]:
        told = campaign.measure(THE_CORE, task)
        if told["killed"]:
            raise RuntimeError(f"the core as it is does not pass {' '.join(task)}: {told}")
    with ThreadPoolExecutor(jobs) as pool:
        for mutant in mutants:
            for task in wanted:
                pool.submit(campaign.measure, mutant, task)
    return [Measured(one, {task: campaign.measure(one, task) for task in wanted}) for one in mutants]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description="Hunt our own mutants.")
    parser.add_argument("names", nargs="*", help="mutants; all of them if none is named")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs until a mutant counts as not found")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--schedulers", default=SCHEDULERS, help="which, with commas between")
    parser.add_argument("--kept", type=Path, help="a file that keeps measurements, to go on after a break")
    parser.add_argument("--write", action="store_true", help="write docs/mutants.md anew")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MUTANTS]:
        parser.error(f"there is no mutant {', '.join(unknown)}; see tests/mutants/seeded.py")
    if options.write and options.names:
        parser.error("the page is written of all mutants only; leave the names out")
    chosen = [MUTANTS[name] for name in options.names] or list(MUTANTS.values())
    wanted = tasks(options.schedulers.split(","), options.runs)
    written = page(measure_all(chosen, wanted, options.jobs, options.kept), options.runs)
    if options.write:
        (ROOT / "docs" / "mutants.md").write_text(written)
    else:
        print(written)


if __name__ == "__main__":
    main()
