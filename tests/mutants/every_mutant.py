"""Every mutant of some modules, against the mirrored tests: which changes do a module's own tests miss?

    python -m tests.mutants.every_mutant actors/supervisor/budgets.py      all mutants of a module
    python -m tests.mutants.every_mutant runtime/log --count 20            20 of each module of a folder
    python -m tests.mutants.every_mutant actors/agent --tests folder --explore 600
    python -m tests.mutants.every_mutant runtime/ports --orders            two neighbours change places

`random_sample` starts pytest for each mutant, which takes seconds. Here a process imports a module and its
tests once. Each mutant is a fork of it, in which the functions have their changed code, and which runs the
tests that reach the changed statement, the fastest first. So a mutant takes some 50 ms.

Rules
  - A change outside of functions, or in a function that runs while modules are imported, has effects that no
    fork can take back. Such a mutant gets a process that has not imported the module yet (`mutant.install`).
  - `--tests folder` takes all tests of the folder, and so does a module without mirrored ones. `--explore`
    sends those that survive the tests into the sessions of all parts, with all rules.
  - Processes that a test starts have no mutant. A mutant that survives here may be found by `random_sample`,
    which writes it to the disk.
  - A fork that uses far more CPU time than the unchanged tests, or does not end, is told as `late` or `hangs`
    and not counted as found: on a busy machine it proves nothing.
"""

import argparse
import ast
import gc
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from time import monotonic, process_time, sleep
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from tests.mutants.mutant import ROOT, Mutant, install
from tests.mutants.order_mutants import places_of_order
from tests.mutants.random_mutants import PlacesIn, is_another, modules_below, mutant_of, places
from tests.mutants.random_sample import TESTS, mirrored_by

CPU_S: Final = 3  # of a fork at least, beyond the time of its tests
IMPORTS_CPU_S: Final = 40
EXPLORE_CPU_S: Final = 60
WALL_PER_CPU: Final = 4
_OPTIONS: Final = ("-q", "-x", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-o", "timeout=60")
_IN_A_FUNCTION: Final = 0x1  # `CO_OPTIMIZED`, which the code of modules and classes lacks

Changed: TypeAlias = list[tuple[types.CodeType, types.CodeType]]
Line: TypeAlias = tuple[str, int]
Verdict: TypeAlias = str
"""`found`, `survived`, `late`, `hangs`, or `import` for a mutant that needs a process of its own."""


class Measure(NamedTuple):
    """The unchanged tests: the lines that each of them reaches, and its CPU time."""

    reached: list[set[Line]]
    seconds: list[float]


def mutants_of(
    module: Path, count: int, seed: int, places_in: PlacesIn = places
) -> list[tuple[Mutant, ast.AST]]:
    """Return the mutants of a module with the places of their changes. count: 0 for all, else so many."""
    found: dict[str, tuple[Mutant, ast.AST]] = {}
    for place in places_in(module):
        for change in place.changes:
            one = mutant_of(place, change)
            if is_another(one.old, one.new):
                found.setdefault(one.new, (one, change.node))
    drawn = list(found.values())
    if count:
        Random(seed).shuffle(drawn)
    return drawn[: count or None]


# --- the code of functions ------------------------------------------------------------


def _functions(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the functions of a module and of its classes, without those inside other functions."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            if one.co_flags & _IN_A_FUNCTION:
                yield one
            else:
                yield from _functions(one)


def _shape(code: types.CodeType, *, is_outer: bool) -> tuple[object, ...]:
    """Return what a code does, without its lines. is_outer: without the functions of a module or class."""
    values = [
        (_shape(one, is_outer=is_outer) if not (is_outer and one.co_flags & _IN_A_FUNCTION) else "function")
        if isinstance(one, types.CodeType)
        else (type(one).__name__, repr(one))
        for one in code.co_consts
    ]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, values


def changed_functions(mutant: Mutant) -> Changed | None:
    """Return the functions that a mutant changes, before and after; None if it changes anything else."""
    old, new = (compile(one, str(mutant.path), "exec", dont_inherit=True) for one in (mutant.old, mutant.new))
    before, after = list(_functions(old)), list(_functions(new))
    names = [[one.co_qualname for one in functions] for functions in (before, after)]
    if names[0] != names[1] or _shape(old, is_outer=True) != _shape(new, is_outer=True):
        return None
    pairs = list(zip(before, after, strict=True))
    changed = [(a, b) for a, b in pairs if _shape(a, is_outer=False) != _shape(b, is_outer=False)]
    return None if any(a.co_freevars != b.co_freevars for a, b in changed) else changed


def _statement(mutant: Mutant, place: ast.AST) -> range:
    """Return the lines of the innermost statement around a place."""
    first, last = place.lineno, place.end_lineno  # type: ignore[attr-defined]  # an expression or a statement
    spans = (
        (one.lineno, one.end_lineno or one.lineno)
        for one in ast.walk(ast.parse(mutant.old))
        if isinstance(one, ast.stmt) and one.lineno <= first and (one.end_lineno or 0) >= last
    )
    begin, end = min(spans, key=lambda one: one[1] - one[0])
    return range(begin, end + 1)


# --- one process with the tests -------------------------------------------------------


class Forks:
    """A plugin of pytest: instead of running the tests once, runs those of each mutant in a fork.

    is_done: True once each mutant has its verdict.
    """

    def __init__(
        self, module: Path, mutants: Iterable[tuple[Mutant, ast.AST]], runs: int, told: Callable[..., None]
    ) -> None:
        self.path = str(module)
        self.is_done = False
        self._mutants = mutants
        self._runs = runs
        self._told = told
        self._reached: set[Line] = set()
        self._real: dict[str, str] = {}
        self._functions: dict[tuple[str, int], list[types.FunctionType]] = {}

    def trace(self, frame: types.FrameType, event: str, argument: object) -> Any:
        """Note the lines of the module that are reached. callboard's folders are links to the module's."""
        name = frame.f_code.co_filename
        if name not in self._real:
            self._real[name] = os.path.realpath(name)
        if self._real[name] != self.path:
            return None
        self._reached.add((self.path, frame.f_lineno))
        return self.trace

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then fork for each mutant. Return True in place of running the tests."""
        sys.settrace(None)
        imported, items = self._reached, session.items
        gc.unfreeze()
        for one in gc.get_objects():
            if (
                isinstance(one, types.FunctionType)
                and os.path.realpath(one.__code__.co_filename) == self.path
            ):
                key = (one.__code__.co_qualname, one.__code__.co_firstlineno)
                self._functions.setdefault(key, []).append(one)
        measure = self._measured(session, items)
        if measure is None:
            return True
        gc.freeze()
        for mutant, place in self._mutants:
            changed = changed_functions(mutant)
            lines = {(self.path, line) for line in _statement(mutant, place)}
            if changed is None or self._bodies(changed) & imported:
                self._told(mutant, "import")
                continue
            chosen = [at for at, reached in enumerate(measure.reached) if reached & lines]
            chosen.sort(key=measure.seconds.__getitem__)
            seconds = CPU_S + 3 * sum(measure.seconds[at] for at in chosen)
            run = self._run(session, [items[at] for at in chosen], changed)
            verdict = verdict_of(run, int(seconds)) if chosen else "survived"
            if verdict == "survived" and self._runs:
                verdict = verdict_of(self._run(session, [], changed, self._runs), EXPLORE_CPU_S)
            self._told(mutant, verdict)
        self.is_done = True
        return True

    def _bodies(self, changed: Changed) -> set[Line]:
        lines = {(line, one.co_firstlineno) for one, _ in changed for *_, line in one.co_lines() if line}
        return {(self.path, line) for line, first in lines if line != first}

    def _run(
        self, session: pytest.Session, items: list[pytest.Item], changed: Changed, runs: int = 0
    ) -> Callable[[], int]:
        def run() -> int:
            for before, after in changed:
                for one in self._functions.get((before.co_qualname, before.co_firstlineno), ()):
                    one.__code__ = after
            _own_folder(session.config)
            for at, item in enumerate(items):
                after_it = items[at + 1] if at + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after_it)
                if session.testsfailed:
                    return 1
            return explored(runs)

        return run

    def _measured(self, session: pytest.Session, items: list[pytest.Item]) -> Measure | None:
        """Run all tests in a fork, so that this process stays as it is. Return None if one fails."""
        reader, writer = os.pipe()

        def run() -> int:
            _own_folder(session.config)
            found = Measure([], [])
            for at, item in enumerate(items):
                self._reached, begun = set(), process_time()
                threading.settrace(self.trace)
                sys.settrace(self.trace)
                after_it = items[at + 1] if at + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after_it)
                sys.settrace(None)
                threading.settrace(None)
                found.reached.append(self._reached)
                found.seconds.append(process_time() - begun)
            with os.fdopen(writer, "w") as out:
                json.dump([[sorted(one) for one in found.reached], found.seconds], out)
            return min(1, session.testsfailed)

        with os.fdopen(reader) as source, tempfile.TemporaryFile() as kept:
            pid = os.fork()
            if not pid:
                os._exit(run())
            os.close(writer)
            kept.write(source.read().encode())
            kept.seek(0)
            _, status = os.waitpid(pid, 0)
            if status:
                return None
            reached, seconds = json.load(kept)
        return Measure([{(path, line) for path, line in one} for one in reached], seconds)


def _own_folder(config: pytest.Config) -> None:
    """Give a fork a folder of its own for `tmp_path`."""
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]  # pytest's own
    factory._basetemp = Path(tempfile.mkdtemp(dir=os.environ["EVERY_MUTANT"]))


def explored(runs: int) -> int:
    """Explore the sessions of all parts. Return 1 if a rule breaks. runs: 0 for none."""
    if not runs:
        return 0
    from tests.mutants import campaign  # imports the core: a mutant must be in place first
    from tests.mutants.parts import PARTS

    return int(bool(campaign.explore([*PARTS.values()], "portfolio", "sample", runs)["killed"]))


def verdict_of(run: Callable[[], int], seconds: int) -> Verdict:
    """Run tests in a fork. run: returns 0 if they pass. seconds: of CPU time."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os._exit(run())
    end = monotonic() + WALL_PER_CPU * seconds
    while monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "late" if os.WIFSIGNALED(status) else "found" if status else "survived"
        sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


# --- modules --------------------------------------------------------------------------


def verdicts(
    module: Path,
    count: int = 0,
    seed: int = 0,
    *,
    whole_folder: bool = False,
    runs: int = 0,
    places_in: PlacesIn = places,
) -> Iterator[tuple[Mutant, Verdict]]:
    """Yield each mutant of a module with its verdict. Raises RuntimeError if the tests fail without one.

    whole_folder: True for all tests of the folder. runs: of the explorer, for those that survive the tests.
    places_in: those of a module at which it may change.
    """
    mutants = mutants_of(module, count, seed, places_in)
    if not mutants:
        return
    path = module.relative_to(ROOT)
    own = [] if whole_folder else mirrored_by(path)
    tests = [str(one) for one in own or [Path("tests") / path.parent]]
    reader, writer = os.pipe()
    at = {id(one): number for number, (one, _) in enumerate(mutants)}

    def told(mutant: Mutant, verdict: Verdict) -> None:
        os.write(writer, f"{at[id(mutant)]} {verdict}\n".encode())

    pid = os.fork()
    if not pid:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        forks = Forks(module, mutants, runs, told)
        sys.settrace(forks.trace)
        pytest.main([*_OPTIONS, *tests], plugins=[forks])  # to its end, which stops the server of the tests
        os._exit(0 if forks.is_done else 2)
    os.close(writer)
    with os.fdopen(reader) as lines:
        for line in lines:
            number, verdict = line.split()
            mutant = mutants[int(number)][0]
            yield mutant, _imported(mutant, tests, runs) if verdict == "import" else verdict
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError(f"the tests of {module} fail without a mutant, or cannot be collected")


def _imported(mutant: Mutant, tests: list[str], runs: int) -> Verdict:
    def run() -> int:
        install(mutant)
        folder = tempfile.mkdtemp(dir=os.environ["EVERY_MUTANT"])
        # `--assert=plain`: to rewrite asserts, pytest would load callboard's modules itself.
        failed = pytest.main([*_OPTIONS, "--assert=plain", f"--basetemp={folder}/base", *tests])
        return min(1, failed) or explored(runs)

    return verdict_of(run, IMPORTS_CPU_S)


def main() -> int:
    """Run the command line. Return 1 if a mutant is not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.every_mutant", description=__doc__)
    parser.add_argument("paths", nargs="+", help="modules or folders")
    parser.add_argument("--count", type=int, default=0, help="mutants of each module; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw, with --count")
    parser.add_argument("--tests", choices=TESTS, default="mirrored", help="the tests that are run")
    parser.add_argument("--explore", type=int, default=0, help="runs of the explorer; 0 for none")
    parser.add_argument("--orders", action="store_true", help="mutants of order (`order_mutants`) only")
    options = parser.parse_args()
    whole_folder = options.tests == "folder"
    os.environ["EVERY_MUTANT"] = tempfile.mkdtemp(prefix="every-mutant-", dir=_memory())
    total: Counter[Verdict] = Counter()
    try:
        for module in (one for path in options.paths for one in sorted(modules_below(ROOT / path))):
            counts: Counter[Verdict] = Counter()
            every = verdicts(
                module,
                options.count,
                options.seed,
                whole_folder=whole_folder,
                runs=options.explore,
                places_in=places_of_order if options.orders else places,
            )
            for mutant, verdict in every:
                counts[verdict] += 1
                if verdict != "found":
                    print(f"{verdict}: {mutant.name}: {shortened(mutant.what)[:300]}", flush=True)
            if counts:
                print(f"{module.relative_to(ROOT)}: {dict(counts)}", flush=True)
            total += counts
    finally:
        shutil.rmtree(os.environ["EVERY_MUTANT"], ignore_errors=True)
    print(f"{total['found']} of {total.total()} found")
    return int(total["found"] != total.total())


def shortened(what: str, around: int = 10) -> str:
    """Return a change with a few words around it. A call of ten lines is told with all of its words."""
    old, new = (re.findall(r"\w+|[^\w\s]", one.replace('"', "'")) for one in what.split(" => ", 1))
    same = [mine == its for mine, its in zip(old, new, strict=False)]
    head = max(0, [*same, False].index(False) - around)
    same_end = [mine == its for mine, its in zip(old[::-1], new[::-1], strict=False)]
    tail = max(0, [*same_end, False].index(False) - around)
    return f"{' '.join(old[head : len(old) - tail])} => {' '.join(new[head : len(new) - tail])}"


def _memory() -> Path | None:
    return Path("/dev/shm") if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
