"""Mutants of conversations with several models: each fits the source, and a test finds it."""

import pytest

from tests.effort import effort
from tests.mutants.mutant import Mutant
from tests.mutants.parts import MUTANTS, ORIGINS
from tests.mutants.test_mutants import child


def test_there_are_at_least_8_mutants_and_no_name_twice() -> None:
    assert len(ORIGINS) >= 8
    assert not ORIGINS.keys() & MUTANTS.keys()


@pytest.mark.parametrize("mutant", ORIGINS.values(), ids=str)
def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    source = mutant.path.read_text()
    changed = mutant.applied(source)
    assert changed != source
    compile(changed, mutant.name, "exec")


@pytest.mark.slow
def test_the_unchanged_core_passes_the_tests_of_origins() -> None:
    assert child("core", "none", "origins") == {"killed": False, "by": ""}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ORIGINS)[: effort(suite=2, campaign=len(ORIGINS))])
def test_a_test_of_origins_finds_the_mutant(name: str) -> None:
    told = child("core", name, "origins")
    assert told["killed"], f"{name} survives"
    assert told["by"].startswith("FAILED")
