"""Measurements of mutants, each in a process of its own: the mutant is in place before callboard is imported.

Rules
  - The unchanged core has to pass the same: as many runs with each seed as the mutants needed.
  - A kept measurement counts only for the code and the mutant that it was made with.
  - After the deadline no further mutant is begun; one that was begun is measured whole.
"""

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

from tests.mutants.measured import MAIN, Measured
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.parts import PART_OF, PARTS, Part
from tests.processes import import_path

TIMEOUT_S: Final = 1_800
THE_CORE: Final = Mutant("none", "The unchanged core.", "", "", "")

MEASURED_WITH: Final = (
    "actors/**/*.py",
    "replay/**/*.py",
    "runtime/orchestrator/*.py",
    "runtime/programs/*.py",
    "tests/actors/**/*.py",
    "tests/mutants/*.py",
)
"""Sources that a measurement depends on."""

NOT_MEASURED_WITH: Final = ("run.py", "table.py", "measuring.py", "measured.py", "test_*.py", "seeded_*.py")
"""Files of tests/mutants that it does not depend on. Of the mutants it depends on one only."""

Task: TypeAlias = tuple[str, ...]
Told: TypeAlias = dict[str, object]


def tasks(runs: int, seeds: int) -> list[Task]:
    """List the measurements of a mutant: one order without faults, and the portfolio with several seeds."""
    return [("fifo",), *(("explore", MAIN, str(seed), str(runs)) for seed in range(seeds))]


class Kept:
    """The measurements, each made once. file: keeps them for a later call; None: they are not kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = Lock()
        self._told: dict[str, Told] = {}
        self._code = digest(*_sources())
        if file is not None and file.exists():
            self._told = json.loads(file.read_text())

    def has(self, part: Part, mutant: Mutant, task: Task) -> bool:
        """Return True if this was measured."""
        return self._key(part, mutant, task) in self._told

    def measure(self, part: Part, mutant: Mutant, task: Task) -> Told:
        """Make one measurement in a process of its own. Raises RuntimeError if that process fails."""
        key = self._key(part, mutant, task)
        if key not in self._told:
            told = _measured(part, mutant, task)
            with self._lock:
                self._told[key] = told
                if self._file is not None:
                    self._file.write_text(json.dumps(self._told, indent=0))
        return self._told[key]

    def _key(self, part: Part, mutant: Mutant, task: Task) -> str:
        change = digest(*(text.encode() for text in (mutant.module, mutant.old, mutant.new)))
        return "/".join((part.name, mutant.name, change, self._code, *task))


def digest(*texts: bytes) -> str:
    """Return a short name for these texts."""
    return blake2b(b"\0".join(texts), digest_size=8).hexdigest()


def _sources() -> Iterator[bytes]:
    for pattern in MEASURED_WITH:
        for path in sorted(ROOT.glob(pattern)):
            is_own = path.parent == Path(__file__).parent
            if not (is_own and any(path.match(name) for name in NOT_MEASURED_WITH)):
                yield path.read_bytes()


def _measured(part: Part, mutant: Mutant, task: Task) -> Told:
    command = [sys.executable, "-m", "tests.mutants.child", part.name, mutant.name, *task]
    environment = {**os.environ, "PYTHONPATH": import_path(ROOT), "PYTHONHASHSEED": "0"}
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


def check_core(measured: Sequence[Measured], jobs: int, kept: Kept) -> None:
    """Let the unchanged core do what found these mutants. Raises RuntimeError if it breaks a rule."""

    def check(part: Part, task: Task) -> None:
        told = kept.measure(part, THE_CORE, task)
        if told["killed"]:
            raise RuntimeError(f"the unchanged core does not pass {part.name} {' '.join(task)}: {told}")

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(check, PARTS[part], task) for part, task in needed_of(measured)]:
            done.result()


def needed_of(measured: Sequence[Measured]) -> list[tuple[str, Task]]:
    """Return the parts and tasks that the core has to pass, with the most runs that a mutant needed.

    The runs are rounded up to a thousand, so that a few more mutants need no new pass.
    """
    needed: dict[tuple[str, Task], int] = {}
    for one in measured:
        part = PART_OF[one.mutant.name].name
        for task, told in one.told.items():
            runs = told.get("runs", 0) if task[0] == "explore" else 0
            assert isinstance(runs, int)
            needed[part, task[:3]] = max(needed.get((part, task[:3]), 0), -(-runs // 1_000) * 1_000)
    return [(part, (*task, str(runs)) if runs else task) for (part, task), runs in needed.items()]


def measure_all(
    mutants: Sequence[Mutant], wanted: Sequence[Task], jobs: int, kept: Kept, commit: str, until: float
) -> list[Measured]:
    """Measure these mutants in this order, as many as are begun until then. until: a time of `monotonic`."""
    progress = Progress(len(mutants))

    def measure(mutant: Mutant) -> Measured | None:
        part = PART_OF[mutant.name]
        if monotonic() > until and not all(kept.has(part, mutant, task) for task in wanted):
            return None
        told = {task: kept.measure(part, mutant, task) for task in wanted}
        progress.done(mutant, told)
        return Measured(mutant, told, commit)

    with ThreadPoolExecutor(jobs) as pool:
        return [one for one in pool.map(measure, mutants) if one is not None]
