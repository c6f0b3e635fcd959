"""Mutants of conversations with several models: each fits the source, and a test finds it."""

import pytest

from tests.effort import effort
from tests.mutants.parts import MUTANTS, ORIGINS
from tests.mutants.test_mutants import child, misfit


def test_there_are_at_least_8_mutants_and_no_name_twice() -> None:
    assert len(ORIGINS) >= 8
    assert not ORIGINS.keys() & MUTANTS.keys()


def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles() -> None:
    assert not [wrong for mutant in ORIGINS.values() if (wrong := misfit(mutant))]


@pytest.mark.slow
def test_the_unchanged_core_passes_the_tests_of_origins() -> None:
    assert child("core", "none", "origins") == {"killed": False, "by": ""}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ORIGINS)[: effort(suite=2, campaign=len(ORIGINS))])
def test_a_test_of_origins_finds_the_mutant(name: str) -> None:
    told = child("core", name, "origins")
    assert told["killed"], f"{name} survives"
    assert told["by"].startswith("FAILED")
