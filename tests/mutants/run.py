"""The campaign: every mutant against FIFO and the explorer; then the page of the results.

    python -m tests.mutants.run                      all mutants; prints the page
    python -m tests.mutants.run --part programs      only those of a part of tests/mutants/parts.py
    python -m tests.mutants.run racer-forgotten ...  only these
    python -m tests.mutants.run --write              all mutants; rewrites tests/mutants/RESULTS.md
    python -m tests.mutants.run --write --minutes 9  the same for nine minutes: first the mutants without a
                                                     row, then those with the oldest rows
    python -m tests.mutants.run --write --kept FILE  FILE keeps measurements over a break

A row that is not measured again is kept, with the commit at which it was measured.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import Final

from tests.mutants.measured import Measured
from tests.mutants.measuring import MEASURED_WITH, NOT_MEASURED_WITH, Kept, check_core, measure_all, tasks
from tests.mutants.mutant import ROOT, Mutant
from tests.mutants.parts import MUTANTS, PARTS
from tests.mutants.table import NOT_EXPLAINED, page, read_rows
from tests.processes import import_path

PAGE: Final = ROOT / "tests" / "mutants" / "RESULTS.md"
RUNS: Final = 10_000
SEEDS: Final = 3

COUNTING: Final = """\
import json
from tests.mutants.campaign import sessions
from tests.mutants.parts import PARTS
print(json.dumps({name: len(sessions(part)) for name, part in PARTS.items()}))
"""


def sessions() -> dict[str, int]:
    """Count the sessions of each part in another process, since this one imports nothing of callboard."""
    environment = {**os.environ, "PYTHONPATH": import_path(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", COUNTING],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


def git(*arguments: str) -> str:
    """Return what git prints; "" if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit_now() -> str:
    """Return the commit of the code, with `+` if there are changes on top of it."""
    return git("rev-parse", "--short=8", "HEAD") + "+" * bool(git("status", "--porcelain", *_measured_with()))


def _measured_with() -> list[str]:
    others = [
        f":(exclude,glob)tests/mutants/{name}" for name in NOT_MEASURED_WITH if not name.startswith("seeded")
    ]
    return [*(f":(glob){pattern}" for pattern in MEASURED_WITH), *others]


def oldest_first(mutants: Sequence[Mutant], rows: Mapping[str, Measured]) -> list[Mutant]:
    """Return these mutants, first those without a row, then by the time of the commit of their row."""
    commits = {one.commit for one in rows.values()}
    times = {commit: int(git("log", "-1", "--format=%ct", commit.rstrip("+")) or 0) for commit in commits}
    return sorted(mutants, key=lambda one: times[rows[one.name].commit] if one.name in rows else -1)


def chosen(names: Sequence[str], part: str | None) -> list[Mutant]:
    """Return the mutants of the command line: these, or all of the part, or all."""
    if names:
        return [MUTANTS[name] for name in names]
    return list((PARTS[part].mutants if part else MUTANTS).values())


def merged(rows: Mapping[str, Measured], measured: Sequence[Measured]) -> dict[str, Measured]:
    """Return the rows in the order of the parts, each as it was measured last."""
    found = {**rows, **{one.mutant.name: one for one in measured}}
    return {name: found[name] for name in MUTANTS if name in found}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description="Hunt our own mutants.")
    parser.add_argument("names", nargs="*", help="mutants; default: all")
    parser.add_argument("--part", choices=PARTS, help="only the mutants of this part")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="runs after which a mutant counts as not found"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of the portfolio")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--minutes", type=float, default=inf, help="begin no further mutant after this time")
    parser.add_argument("--kept", type=Path, help="a file that keeps measurements, to continue after a break")
    parser.add_argument("--write", action="store_true", help="rewrite tests/mutants/RESULTS.md")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MUTANTS]:
        parser.error(f"there is no mutant {', '.join(unknown)}; see tests/mutants/parts.py")
    return options


def main() -> int:
    """Run the command line. Return 1 if a mutant is not found and has no note."""
    options = _options()
    until = monotonic() + 60 * options.minutes
    kept, wanted = Kept(options.kept), tasks(options.runs, options.seeds)
    rows = read_rows(PAGE.read_text(), MUTANTS)
    mutants = oldest_first(chosen(options.names, options.part), rows)
    measured = measure_all(mutants, wanted, options.jobs, kept, commit_now(), until)
    check_core(measured, options.jobs, kept)
    shown = merged(rows if options.write else {}, measured)
    written = page(shown, options.runs, sessions())
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
