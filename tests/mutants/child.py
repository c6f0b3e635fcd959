"""A process with one mutant in it: does one task, prints one line of JSON.

    python -m tests.mutants.child PART MUTANT origins
    python -m tests.mutants.child PART MUTANT fifo
    python -m tests.mutants.child PART MUTANT explore SCHEDULER SEED RUNS
    python -m tests.mutants.child PART MUTANT fifo-and-explore SCHEDULER SEED RUNS

PART is a name of `tests/mutants/parts.py`: the sessions that are run. `all` for PART explores those of all
parts, which take turns. `origins` runs tests only.
`none` for MUTANT is the unchanged core. Nothing of callboard is imported before the mutant is in place.
"""

import atexit
import contextlib
import gc
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.mutant import ROOT, install
from tests.mutants.parts import MUTANTS, ORIGINS, PARTS

NO_MUTANT = "none"
ALL_PARTS = "all"

OF_ORIGINS = (
    "agent/test_origins.py",
    "agent/test_repair_levels.py",
    "protocol/test_makers.py",
    "protocol/test_repairs.py",
    "protocol/test_translation.py",
)
"""The files of tests/actors about conversations with several models."""


def run_tests(files: Sequence[Path]) -> dict[str, object]:
    """Run the tests of these files. Return which one fails first, if any."""
    import pytest  # the other tasks start faster without it

    options = [
        "-x",
        "-q",
        "-m",
        "not slow",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
        "--hypothesis-profile=hunt",
    ]
    # `--assert=plain`: to rewrite asserts, pytest would load callboard's modules itself, without the mutant.
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = pytest.main([*options, f"--rootdir={ROOT}", *map(str, files)])
    lines = told.getvalue().splitlines()
    named = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or lines[-1:]
    return {"killed": code != 0, "by": named[0] if code and named else ""}


def main(arguments: list[str]) -> None:
    """Do the task of the command line."""
    part, name, task, *rest = arguments
    if name != NO_MUTANT:
        install((MUTANTS | ORIGINS)[name])
    if task == "origins":
        print(json.dumps(run_tests([ROOT / "tests" / "actors" / file for file in OF_ORIGINS])))
        return
    gc.disable()  # most tasks are short: to look for garbage among the modules takes a fifth of their CPU
    from tests.mutants import campaign  # the mutant must be in place first

    gc.freeze()
    gc.enable()
    atexit.register(gc.freeze)
    found = {"fifo": campaign.fifo(PARTS[part])} if task.startswith("fifo") else {}
    if task == "fifo":
        print(json.dumps(found["fifo"]))
        return
    scheduler, seed, runs = rest
    parts = list(PARTS.values()) if part == ALL_PARTS else [PARTS[part]]
    print(json.dumps({**found, **campaign.explore(parts, scheduler, seed, int(runs))}))


if __name__ == "__main__":
    main(sys.argv[1:])
