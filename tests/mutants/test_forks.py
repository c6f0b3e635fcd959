"""Mutants of forks are found: by the tests of forks, and by forks in the simulator."""

import subprocess
import sys

import pytest

from tests.effort import IS_CAMPAIGN
from tests.mutants.mutant import ROOT
from tests.mutants.seeded_forks import FORKS, LOOK_UP, ONCE, TESTED_ALONE, UNSIMULATED

TRIES = 8
SOON = "needs-effect-is-an-error"
"""A mutant that makes no test wait until its time is over."""
ROUNDS = 6
SIMULATED_MIN = 24
TESTED = (*LOOK_UP, *ONCE, *TESTED_ALONE, *UNSIMULATED)

_RUN = """
import sys
from tests.mutants.mutant import install
from tests.mutants.seeded_forks import FORKS
install(next(one for one in FORKS if one.name == sys.argv[1]))
import pytest
options = ["-x", "-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", "-m", "slow or not slow"]
units = ("test_given_once.py", "test_fork_order.py", "test_fork_starts.py")
sys.exit(pytest.main([*options, *[f"tests/actors/session/{one}" for one in units], "tests/runtime/forks"]))
"""


def test_every_mutant_of_forks_fits() -> None:
    for mutant in FORKS:
        assert mutant.applied(mutant.path.read_text()), mutant.name


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in TESTED] if IS_CAMPAIGN else [SOON])
def test_the_tests_of_forks_find_every_mutant_of_the_look_up(name: str) -> None:
    # Live sessions meet in another order each time, and some mutants matter in some orders only.
    assert any(is_found(name) for _ in range(TRIES))


def is_found(name: str) -> bool:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, name], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert "passed" in done.stdout or "failed" in done.stdout
    return done.returncode == 1


_HUNT = """
import sys
from tests.mutants.mutant import install
from tests.mutants.seeded_forks import FORKS
for name in sys.argv[1:]:
    install(next(one for one in FORKS if one.name == name))
from tests.mutants.campaign import Lane
from tests.mutants.scenarios_forks import FORKS
lanes = [Lane(name, one, "portfolio", "0") for name, one in FORKS.items()]
for lane in lanes * %d:
    run = lane.run()
    if run is not None and run.violation is not None:
        sys.exit(1)
"""


def is_found_by_simulation(*names: str) -> bool:
    """Return True if a run of a simulated fork breaks a rule. names: the mutant, none for the sound core."""
    command = [sys.executable, "-c", _HUNT % ROUNDS, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    return done.returncode != 0


@pytest.mark.skipif(not IS_CAMPAIGN, reason="hunts every mutant of forks: CAMPAIGN=1")
def test_the_simulator_finds_most_mutants_of_forks() -> None:
    assert not is_found_by_simulation()
    hunted = [one for one in FORKS if one not in TESTED_ALONE]
    missed = [one.name for one in hunted if not is_found_by_simulation(one.name)]
    assert len(hunted) - len(missed) >= SIMULATED_MIN, missed


@pytest.mark.slow
def test_the_simulator_finds_an_effect_that_runs_silently() -> None:
    assert is_found_by_simulation("effects-run-silently")
