"""A random sample of mutants: which share of small changes do our own tests find, and which do they miss?

    python -m tests.mutants.random_sample --seed 20261128                 120 mutants over actors/
    python -m tests.mutants.random_sample --seed 20261128 --numbers 7,31  only these of the draw
    python -m tests.mutants.random_sample --seed 20261128 --list          the draw, and no measurement
    python -m tests.mutants.random_sample --seed 20261128 --count 40 --tests mirrored --explore 0 \
        --paths runtime/sessions runtime/ports
    python -m tests.mutants.random_sample --seed 20261128 --orders        two neighbours change places

The seeded mutants of `parts` were made by people who knew the rules, and are found by what was written for
them. A fresh sample has no author. So its figure tells what the next fault has to fear, as long as nothing
has been written for that draw: after that, take another seed. A seed draws the same mutants only from the
same sources, so the last line names the commit.

Each mutant goes through these stages, up to the first that fails:

    mirrored    the module's own test file, and those that continue it: `test_meta_wal.py` is one of `meta.py`
    explore     a few runs of the sessions of all parts, with all rules: less work than a folder of tests
    folder      all tests of the folder of that file
    explore     all runs

Rules
  - A mutant is a line on disk, in a copy of the repository: processes that a test starts have it, too. Each
    worker has a copy, and puts the module right after each mutant.
  - The unchanged copy has to pass each stage that is used, and is measured first.
  - A stage that uses too much CPU time has found the mutant: `too long`. No limit counts the time of a clock,
    but that of pytest for one test that hangs.
"""

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from tests.mutants.child import ALL_PARTS, NO_MUTANT
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.order_mutants import places_of_order
from tests.mutants.random_mutants import draw, places
from tests.mutants.run import git
from tests.processes import import_path

CPU_S: Final = 300
"""The longest stage of the unchanged core uses a tenth of that."""

MEMORY_BYTES: Final = 8 << 30
FEW_RUNS: Final = 200
LEFT_OUT: Final = (".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "site", "node_modules")
RAM: Final = Path("/dev/shm")
TESTS: Final = {"mirrored": 1, "folder": 2}
"""The number of stages with tests, by the last of them."""

_HANGS: Final = "timeout=60"
_NO_FILE: Final = "file or directory not found"
_FIRST: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)

Stage: TypeAlias = tuple[str, ...]
"""The name of a stage, and the arguments of its process."""


class Found(NamedTuple):
    """The verdict on a mutant. stage: that found it, "" for none. by: the test or the rule."""

    stage: str = ""
    by: str = ""


class Copy:
    """A copy of the repository for one worker. root: its folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._changes = 0
        shutil.copytree(ROOT, root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))

    @contextmanager
    def with_mutant(self, mutant: Mutant) -> Iterator[None]:
        """Have a mutant in the copy."""
        path = self.root / mutant.path.relative_to(ROOT)
        self._write(path, mutant.applied(mutant.old))
        try:
            yield
        finally:
            self._write(path, mutant.old)

    def _write(self, path: Path, source: str) -> None:
        path.write_text(source)
        # Bytecode is known by the second of its source and by its size: no two texts may share both.
        self._changes += 1
        os.utime(path, (self._changes, self._changes))

    def run(self, stage: Stage) -> Found:
        """Run one stage. Return an empty verdict if it passes."""
        name, *arguments = stage
        environment = {**os.environ, "PYTHONPATH": import_path(self.root), "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            preexec_fn=_bounded,
            check=False,
        )
        if name == "explore" and not done.returncode:
            told = json.loads(done.stdout.splitlines()[-1])
            return Found(name, f"{told['rule']} (run {told['runs']})") if told["killed"] else Found()
        if not done.returncode:
            return Found()
        if done.returncode == -signal.SIGXCPU:
            return Found(name, "too long")
        if done.returncode < 0:
            raise RuntimeError(f"{' '.join(arguments)} was ended by signal {-done.returncode}")
        if _NO_FILE in done.stderr + done.stdout:  # one was added to the repository after the copy was made
            raise RuntimeError(f"{' '.join(arguments)}: {_NO_FILE}")
        first = _FIRST.search(done.stdout)
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        return Found(name, first[1] if first else " ".join(last))


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 5))  # the hard limit would kill it by SIGKILL
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def stages_of(mutant: Mutant, tests: str, runs: int) -> list[Stage]:
    """Return the stages for a mutant. tests: the last stage with tests. runs: of the explorer, 0 for none."""
    path = mutant.path.relative_to(ROOT)
    pytest = ("-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0")
    folder = Path("tests") / path.parent
    targets = {"mirrored": mirrored_by(path), "folder": [folder] if (ROOT / folder).exists() else []}
    found: list[Stage] = [
        (name, *pytest, "-o", _HANGS, *map(str, paths))
        for name, paths in [*targets.items()][: TESTS[tests]]
        if paths
    ]
    child = ("explore", "-m", "tests.mutants.child", ALL_PARTS, NO_MUTANT, "explore", "portfolio", "sample")
    if not runs:
        return found
    few = [] if runs <= FEW_RUNS else [(*child, str(FEW_RUNS))]
    return [*found[:1], *few, *found[1:], (*child, str(runs))]


def mirrored_by(path: Path) -> list[Path]:
    """Return the test files of a module, below the repository: its own, and those that continue it."""
    folder = Path("tests") / path.parent
    own = folder / f"test_{path.name}"
    more = (one.relative_to(ROOT) for one in sorted((ROOT / folder).glob(f"test_{path.stem}_*.py")))
    # `test_session_tools.py` tests `session_tools.py`, not `session.py`.
    continued = [one for one in more if not _has_module(one.stem.removeprefix("test_"), path)]
    return [one for one in (own, *continued) if (ROOT / one).exists()]


def _has_module(name: str, beside: Path) -> bool:
    """Return True if a longer name than this module's begins the name of a test."""
    modules = (one.stem for one in (ROOT / beside.parent).glob(f"{beside.stem}_*.py"))
    return any(name == one or name.startswith(f"{one}_") for one in modules)


def measured(
    mutants: Sequence[Mutant],
    stages: Callable[[Mutant], list[Stage]],
    jobs: int,
    told: Callable[[int, Found], None],
) -> list[Found]:
    """Send mutants through their stages. told: is called with the place and the verdict of each.

    Raises RuntimeError if the unchanged copy does not pass a stage.
    """
    folder = Path(tempfile.mkdtemp(prefix="mutants-", dir=RAM if RAM.is_dir() else None))
    try:
        copies: SimpleQueue[Copy] = SimpleQueue()
        with ThreadPoolExecutor(jobs) as pool:
            for copy in pool.map(lambda number: Copy(folder / str(number)), range(jobs)):
                copies.put(copy)

            def check(stage: Stage) -> None:
                with _one_of(copies) as copy:
                    found = copy.run(stage)
                if found.stage:
                    raise RuntimeError(f"the unchanged core does not pass {' '.join(stage)}: {found.by}")

            def measure(at: int, mutant: Mutant) -> Found:
                with _one_of(copies) as copy, copy.with_mutant(mutant):
                    verdicts = (copy.run(stage) for stage in stages(mutant))
                    found = next((one for one in verdicts if one.stage), Found())
                told(at, found)
                return found

            list(pool.map(check, _to_check([stages(one) for one in mutants])))
            return list(pool.map(measure, range(len(mutants)), mutants))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _to_check(used: Iterable[Sequence[Stage]]) -> Iterable[Stage]:
    """Return the stages that the unchanged copy has to pass, without those that are a part of another."""
    stages = dict.fromkeys(stage for each in used for stage in each)
    names = {stage[0] for stage in stages}
    is_part = {"mirrored": "folder" in names, "explore": False, "folder": False}
    return [one for one in stages if not is_part[one[0]] and one[-1] != str(FEW_RUNS)]


@contextmanager
def _one_of(copies: "SimpleQueue[Copy]") -> Iterator[Copy]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


# --- the command line -----------------------------------------------------------------


def row(number: int, mutant: Mutant, found: Found | None) -> str:
    """Return a row of the table."""
    what = mutant.what if len(mutant.what) < 300 else f"{mutant.what[:300]} ..."
    what = what.replace("|", "\\|").replace("`", "'")
    verdict = "" if found is None else f"{found.stage}: {found.by}" if found.stage else "**not found**"
    return f"| {number} | {mutant.name} | `{what}` | {verdict} |"


def summary(found: Sequence[Found]) -> str:
    """Return the figures of a sample in one line."""
    stages = [one.stage for one in found if one.stage]
    by_stage = ", ".join(f"{name} {stages.count(name)}" for name in dict.fromkeys(stages))
    late = sum(one.by == "too long" for one in found)
    return f"{len(stages)} of {len(found)} found ({by_stage}; {late} of them by their CPU time)"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.random_sample", description=__doc__)
    parser.add_argument("--paths", nargs="+", default=["actors"], help="folders or modules")
    parser.add_argument("--count", type=int, default=120, help="mutants")
    parser.add_argument("--seed", type=int, required=True, help="of the draw")
    parser.add_argument("--tests", choices=TESTS, default="folder", help="the last stage with tests")
    parser.add_argument("--explore", type=int, default=2_000, help="runs of the explorer; 0 for none")
    parser.add_argument("--numbers", default="", help="only these of the draw, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the draw only")
    parser.add_argument("--orders", action="store_true", help="mutants of order (`order_mutants`) only")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    return parser.parse_args()


def main() -> int:
    """Run the command line. Return 1 if a mutant is not found."""
    options = _options()
    places_in = places_of_order if options.orders else places
    drawn = dict(enumerate(draw(options.paths, options.count, options.seed, places_in), 1))
    numbers = [int(one) for one in options.numbers.split(",") if one] or list(drawn)
    mutants = [drawn[number] for number in numbers]
    if options.list:
        print("\n".join(row(number, drawn[number], None) for number in numbers))
        return 0
    lock = Lock()

    def told(at: int, found: Found) -> None:
        with lock:
            print(row(numbers[at], mutants[at], found), flush=True)

    def stages(mutant: Mutant) -> list[Stage]:
        return stages_of(mutant, options.tests, options.explore)

    found = measured(mutants, stages, options.jobs, told)
    print(f"\nseed {options.seed} at {git('rev-parse', '--short=8', 'HEAD')}: {summary(found)}")
    return int(not all(one.stage for one in found))


if __name__ == "__main__":
    sys.exit(main())
