"""A process with one mutant in it: does one task, prints one line of JSON.

    python -m tests.mutants.child MUTANT units
    python -m tests.mutants.child MUTANT fifo
    python -m tests.mutants.child MUTANT explore SCHEDULER SEED RUNS
    python -m tests.mutants.child MUTANT fifo-and-explore SCHEDULER SEED RUNS
    python -m tests.mutants.child MUTANT shared SCHEDULER SEED RUNS
    python -m tests.mutants.child MUTANT programs SCHEDULER SEED RUNS
    python -m tests.mutants.child MUTANT background SCHEDULER SEED RUNS

`none` for MUTANT is the unchanged core. Nothing of callboard is imported before the mutant is in place.
"""

import contextlib
import io
import json
import sys

from tests.mutants.mutant import ROOT, install
from tests.mutants.seeded import BACKGROUND, CAPACITY, MUTANTS, PROGRAMS

NO_MUTANT = "none"

NOT_UNITS = ("test_sessions.py", "test_protocol.py", "test_growth.py", "test_states_page.py", "test_codec.py")
"""Files of tests/actors without unit tests of the rules. The first two run whole sessions, in random orders
and disturbed at every point: that is exploration under another name. The others check sizes, a page of the
docs, and the bytes of messages by Hypothesis."""

LIKELY = ("supervisor", "agent", "session")
"""The folders whose tests come first: the first failure is enough."""


def units() -> dict[str, object]:
    """Run the unit tests. Return which one fails first, if any."""
    import pytest  # the other tasks start faster without it

    files = [file for file in (ROOT / "tests" / "actors").rglob("test_*.py") if file.name not in NOT_UNITS]
    files.sort(key=lambda file: (file.parent.name not in LIKELY, file.parent.name, file.name))
    options = [
        "-x",
        "-q",
        "-m",
        "not slow",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=0",
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
    name, task, *rest = arguments
    if name != NO_MUTANT:
        install((MUTANTS | CAPACITY | BACKGROUND | PROGRAMS)[name])
    if task == "units":
        print(json.dumps(units()))
        return
    from tests.mutants import campaign  # the mutant must be in place first

    if task == "fifo":
        print(json.dumps(campaign.fifo()))
        return
    scheduler, seed, runs = rest
    special = {
        "shared": campaign.explore_shared,
        "background": campaign.explore_background,
        "programs": campaign.explore_programs,
    }
    explored = special.get(task, campaign.explore)(scheduler, seed, int(runs))
    print(json.dumps({"fifo": campaign.fifo(), **explored} if task == "fifo-and-explore" else explored))


if __name__ == "__main__":
    main(sys.argv[1:])
