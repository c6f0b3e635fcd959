"""Mutants of programs: each fits the source, and the sessions of programs find it."""

import os

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.seeded import CAPACITY, MUTANTS, PROGRAMS
from tests.mutants.test_mutants import child

RUNS = 3_000
IS_CAMPAIGN = "CAMPAIGN" in os.environ
"""`make mutants` sets it: what takes more than five seconds runs only there."""

RARE = ("crash-forgets-calls", "cancelled-in-line-starts", "deadline-of-before", "approved-and-given-up-runs")
"""Mutants that need more than a thousand runs."""


def test_there_are_at_least_20_mutants_and_no_name_twice() -> None:
    assert len(PROGRAMS) >= 20
    assert not PROGRAMS.keys() & (MUTANTS.keys() | CAPACITY.keys())


@pytest.mark.parametrize("mutant", PROGRAMS.values(), ids=str)
def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    compile(mutant.applied(mutant.path.read_text()), mutant.name, "exec")


@pytest.mark.slow
def test_the_unchanged_core_survives_the_same_runs() -> None:
    runs = RUNS if IS_CAMPAIGN else RUNS // 5
    assert child("none", "programs", "portfolio", "suite", str(runs)) == {"killed": False, "runs": runs}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS if IS_CAMPAIGN else [one for one in PROGRAMS if one not in RARE])
def test_the_sessions_of_programs_find_the_mutant(name: str) -> None:
    told = child(name, "programs", "portfolio", "suite", str(RUNS))
    assert told["killed"], f"{name} survives {RUNS} runs"
