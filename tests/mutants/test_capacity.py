"""Mutants of the shared capacity: each fits the source, and sessions on one port find it."""

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.seeded import CAPACITY, MUTANTS
from tests.mutants.seeded_capacity import PLACES, POLICY
from tests.mutants.test_mutants import child

RUNS = 2_000
RARE_RUNS = 16_000
"""With any of eight seeds the rarest, `late-place-kept`, needed 2,368 runs at most."""


def test_there_are_at_least_15_mutants_and_no_name_twice() -> None:
    assert len(CAPACITY) == len(POLICY) + len(PLACES) >= 15
    assert not CAPACITY.keys() & MUTANTS.keys()


@pytest.mark.parametrize("mutant", CAPACITY.values(), ids=str)
def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    compile(mutant.applied(mutant.path.read_text()), mutant.name, "exec")


@pytest.mark.slow
def test_the_unchanged_core_survives_the_same_runs() -> None:
    assert child("none", "shared", "portfolio", "suite", str(RUNS)) == {"killed": False, "runs": RUNS}


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPACITY)
def test_sessions_on_one_port_find_the_mutant(name: str) -> None:
    told = child(name, "shared", "portfolio", "suite", str(RARE_RUNS))
    assert told["killed"], f"{name} survives {RARE_RUNS} runs"
