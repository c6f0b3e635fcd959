"""Mutants of the shell: each fits the source, and a test where the code stands finds it."""

import subprocess
import sys

import pytest

from tests.effort import IS_CAMPAIGN
from tests.mutants.mutant import ROOT
from tests.mutants.parts import MUTANTS, ORIGINS
from tests.mutants.seeded_shell import SHELL
from tests.mutants.test_mutants import misfit

TESTS = {one.name: tests for tests, group in SHELL.items() for one in group}
ALL = {one.name: one for group in SHELL.values() for one in group}

SOON = "labels-of-the-first-entry"
"""A mutant that one of the first tests of a small folder finds."""

_RUN = """
import sys
from tests.mutants.mutant import install
from tests.mutants.seeded_shell import SHELL
name, *tests = sys.argv[1:]
install(next(one for group in SHELL.values() for one in group if one.name == name))
import pytest
options = ["-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow"]
sys.exit(pytest.main([*options, *tests]))
"""


def test_there_are_three_neighbours_of_each_hole_and_no_name_twice() -> None:
    assert all(len(group) >= 3 for group in SHELL.values())
    assert len(ALL) == sum(map(len, SHELL.values()))
    assert not ALL.keys() & (MUTANTS.keys() | ORIGINS.keys())


def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles() -> None:
    assert not [wrong for mutant in ALL.values() if (wrong := misfit(mutant))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL if IS_CAMPAIGN else [SOON])
def test_a_test_where_the_code_stands_finds_the_mutant(name: str) -> None:
    command = [sys.executable, "-c", _RUN, name, *TESTS[name].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1, f"{name} survives"
    assert "FAILED" in done.stdout
