"""Every mutant of forks is found by the tests of forks."""

import subprocess
import sys

import pytest

from tests.mutants.mutant import ROOT
from tests.mutants.seeded_forks import FORKS

TRIES = 8

_RUN = """
import sys
from tests.mutants.mutant import install
from tests.mutants.seeded_forks import FORKS
install(next(one for one in FORKS if one.name == sys.argv[1]))
import pytest
options = ["-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", "slow or not slow"]
sys.exit(pytest.main([*options, "tests/runtime/forks"]))
"""


@pytest.mark.parametrize("mutant", FORKS, ids=lambda one: one.name)
def test_every_mutant_of_forks_fits(mutant: object) -> None:
    found = next(one for one in FORKS if one is mutant)
    assert found.applied(found.path.read_text()) != found.path.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in FORKS])
def test_the_tests_of_forks_find_every_mutant_of_them(name: str) -> None:
    # Live sessions meet in another order each time, and some mutants matter in some orders only.
    assert any(is_found(name) for _ in range(TRIES))


def is_found(name: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, name], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert "passed" in done.stdout or "failed" in done.stdout
    return done.returncode == 1
