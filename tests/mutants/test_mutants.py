"""Our own mutants: each still fits the source, the page names it, and some are found quickly.

The whole campaign is `make mutants`; the runs here have fixed seeds and small budgets.
"""

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from callboard.actors.protocol.events import granted_by
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import CallModel
from callboard.replay.testing.sessions.world import SessionWorld
from tests.mutants.mutant import ROOT, Mutant, install
from tests.mutants.run import SCHEDULERS, with_kept_rows
from tests.mutants.scenarios_small import PAIR_NEEDS, ROOM, SAVER_USES, team
from tests.mutants.seeded import MUTANTS, PARTS
from tests.mutants.table import NOT, NOT_EXPLAINED, Measured, later_of, page, read_rows

RUNS = 2_000
"""With any of five seeds the rarest of these mutants needed 422 runs at most, so chance has a wide margin."""

QUICK = (
    "loser-in-back-off-forgotten",
    "only-the-first-late",
    "stop-without-grant",
    "drains-before-the-tools",
    "torn-decision-not-completed",
    "write-runs-again",
    "failure-counts-twice",
    "stop-skips-the-checking",
)
"""Mutants of eight parts of the core. Only a particular order or a fault finds each of them."""


EXPLORE = ("fifo-and-explore", "portfolio", "suite", str(RUNS))


@cache
def child(name: str, *task: str) -> dict[str, Any]:
    """Return the result of a task, which is run once for all tests that ask for it."""
    return run_task(name, *task)


def run_task(name: str, *task: str) -> dict[str, Any]:
    """Run one task in a process with this mutant; return its result."""
    command = [sys.executable, "-m", "tests.mutants.child", name, *task]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_there_are_at_least_45_mutants_and_no_name_twice() -> None:
    assert len(MUTANTS) == sum(len(part) for part in PARTS.values()) >= 45


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=str)
def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles(mutant: Mutant) -> None:
    compile(mutant.applied(mutant.path.read_text()), mutant.name, "exec")


def test_a_mutant_that_fits_nowhere_or_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="occurs 0 times"):
        Mutant("gone", "Fits nowhere.", "gate", "no such text", "").applied("class PortGate")
    with pytest.raises(ValueError, match="occurs 2 times"):
        Mutant("twice", "Fits twice.", "gate", "ab", "b").applied("abab")
    with pytest.raises(ValueError, match="occurs 1 times"):
        Mutant("nothing", "Changes nothing.", "gate", "ab", "ab").applied("ab")


def test_a_mutant_is_refused_after_the_first_import() -> None:
    import callboard.actors.session.port_gate  # noqa: F401  # the import is the subject of this test

    with pytest.raises(RuntimeError, match="imported already"):
        install(next(iter(MUTANTS.values())))


def test_the_page_names_every_mutant_and_its_effect() -> None:
    written = (ROOT / "tests" / "mutants" / "RESULTS.md").read_text()
    missing = [one.name for one in MUTANTS.values() if f"| `{one.name}` | {one.what} |" not in written]
    assert not missing, "run `make mutants`"


def test_the_page_names_only_existing_mutants() -> None:
    lines = (ROOT / "tests" / "mutants" / "RESULTS.md").read_text().splitlines()
    named = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert named == set(MUTANTS)


def test_exactly_the_mutants_that_are_not_found_are_explained() -> None:
    written = (ROOT / "tests" / "mutants" / "RESULTS.md").read_text()
    assert NOT_EXPLAINED not in written, "give the reason in the `note` of the mutant"
    missed = {line.split("`")[1]: line for line in written.splitlines() if line.startswith("- `")}
    explained = {one.name: f"- `{one.name}`: {one.note}" for one in MUTANTS.values() if one.note}
    assert missed == explained, "run `make mutants`; a mutant that is found needs no note"


def test_the_page_lists_a_mutant_that_one_seed_missed_as_not_found() -> None:
    told: dict[tuple[str, ...], dict[str, object]] = {
        ("fifo",): {"killed": False, "runs": 2},
        ("units",): {"killed": False},
        ("explore", "portfolio", "0", "9"): {"killed": True, "runs": 7, "rule": "One."},
        ("explore", "portfolio", "1", "9"): {"killed": False, "runs": 9},
        ("explore", "pos", "0", "2"): {"killed": True, "runs": 1, "rule": "Two."},
    }
    mutant = Mutant("one", "It is wrong.", "gate", "a", "b")
    lines = page([Measured(mutant, told)], 9, 2).splitlines()
    assert "| `one` | It is wrong. | - | - | 7, - | 1 | One. |" in [one.replace(NOT, "-") for one in lines]
    assert f"- `one`: {NOT_EXPLAINED}" in lines
    assert page([Measured(mutant._replace(note="too rare."), told)], 9, 2).splitlines()[-1] == (
        "- `one`: too rare."
    )


def test_a_page_tells_its_rows_again() -> None:
    written = (ROOT / "tests" / "mutants" / "RESULTS.md").read_text()
    measured = list(read_rows(written, MUTANTS).values())
    assert [one.mutant.name for one in measured] != []
    again = page(measured, 10_000, 30, later_of(written))
    assert sorted(again.splitlines()[21:]) == sorted(written.splitlines()[21:])


def test_rows_that_are_made_again_replace_those_of_the_page_which_says_so() -> None:
    written = (ROOT / "tests" / "mutants" / "RESULTS.md").read_text()
    new: dict[tuple[str, ...], dict[str, object]] = {
        ("fifo",): {"killed": False, "runs": 30},
        ("units",): {"killed": False},
    }
    for scheduler in SCHEDULERS.split(","):
        new["explore", scheduler, "0"] = {"killed": True, "runs": 9, "rule": "R."}
    name = QUICK[0]
    rows = with_kept_rows([Measured(MUTANTS[name], new)], written)
    again = page(rows, 10_000, 30, {name})
    assert [one.mutant.name for one in rows] == list(MUTANTS)
    assert f"| `{name}` | {MUTANTS[name].what} | {NOT} | {NOT} | 9 | 9 | 9 | 9 | 9 | R. |" in again
    assert later_of(again) == {name}
    assert read_rows(again, MUTANTS)[QUICK[1]] == read_rows(written, MUTANTS)[QUICK[1]]


def test_budgets_to_the_token_fit_the_needs_of_the_core() -> None:
    world = SessionWorld(team(Limits(), Limits())).run()
    needs = [(one.agent, granted_by(world.log, one).need.tokens) for one in world.of(CallModel)]
    assert sum(tokens for who, tokens in needs if who == "host.1") == SAVER_USES
    first = next(tokens for who, tokens in needs if who == "host.2")
    pair = sum(tokens for who, tokens in needs if who in ("host.2.1", "host.2.2"))
    asked = next(event.body for event in world.events(Delegate) if event.sender == "host.2")
    assert isinstance(asked, Delegate)
    assert first + asked.closing.tokens + asked.delegations * ROOM + pair == PAIR_NEEDS


@pytest.mark.slow
def test_the_unchanged_core_survives_the_same_runs() -> None:
    told = child("none", *EXPLORE)
    assert not told["fifo"]["killed"]
    assert (told["killed"], told["runs"]) == (False, RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_exploration_finds_the_mutant_and_fifo_does_not(name: str) -> None:
    told = child(name, *EXPLORE)
    assert not told["fifo"]["killed"]
    assert told["killed"], f"{name} survives {RUNS} runs"


@pytest.mark.slow
def test_a_seed_finds_a_mutant_again_in_the_same_run_and_schedule() -> None:
    assert child(QUICK[0], *EXPLORE) == run_task(QUICK[0], *EXPLORE)
