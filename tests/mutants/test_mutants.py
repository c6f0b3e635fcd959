"""Our own mutants: each still fits the source, the page names it, and some are found quickly.

The whole campaign is `make mutants`; the runs here have fixed seeds and small budgets.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.port_messages import CallModel
from callboard.replay.testing.sessions.world import SessionWorld
from tests.effort import effort
from tests.grants import granted_by
from tests.mutants import campaign
from tests.mutants.measured import Measured
from tests.mutants.measuring import needed_of
from tests.mutants.mutant import ROOT, Mutant, install
from tests.mutants.parts import DRIVING, MUTANTS, NAIVE, PARTS
from tests.mutants.run import git, merged, oldest_first, sessions
from tests.mutants.scenarios_small import PAIR_NEEDS, ROOM, SAVER_USES, team
from tests.mutants.table import NOT, NOT_EXPLAINED, page, read_rows
from tests.processes import import_path

PAGE = ROOT / "tests" / "mutants" / "RESULTS.md"
RUNS = 1_000
"""With any of five seeds the rarest of these mutants needed 422 runs at most, so chance has a wide margin."""

QUICK = {
    "core": (
        "only-the-first-late",
        "stop-without-grant",
        "drains-before-the-tools",
        "write-runs-again",
        "stop-skips-the-checking",
    ),
    "background": ("refused-words-stay", "words-for-the-dead"),
    "rounds": ("later-round-claims-it-never-started",),
    "orders": ("change-of-the-stopped",),
}
"""Mutants of several groups of each part. Only a particular order or a fault finds each of them."""

UNCHANGED = effort(suite=16, campaign=5 * RUNS)
"""The runs of the unchanged core in each part. `make mutants` lets it make those of all seeds.

They find no mutant but false alarms, for which `test_false_alarms.py` looks with each kind of fault alone.
"""

EXPLORE = ("fifo-and-explore", "portfolio", "suite")


@cache
def child(part: str, name: str, *task: str) -> dict[str, Any]:
    """Return the result of a task, which is run once for all tests that ask for it."""
    return run_task(part, name, *task)


def run_task(part: str, name: str, *task: str) -> dict[str, Any]:
    """Run one task in a process with this mutant; return its result."""
    command = [sys.executable, "-m", "tests.mutants.child", part, name, *task]
    environment = {**os.environ, "PYTHONPATH": import_path(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_no_name_of_a_mutant_or_a_group_stands_twice() -> None:
    groups = [group for part in PARTS.values() for group in part.groups]
    assert len(set(groups)) == len(groups)
    assert len(MUTANTS) == sum(len(group) for part in PARTS.values() for group in part.groups.values())


def test_each_mutant_fits_the_source_in_exactly_one_place_and_compiles() -> None:
    assert not [wrong for mutant in MUTANTS.values() if (wrong := misfit(mutant))]


def misfit(mutant: Mutant) -> str:
    """Return why a mutant cannot be put into its source, or ''."""
    try:
        compile(mutant.applied(mutant.path.read_text()), mutant.name, "exec")
    except SyntaxError as error:
        return f"{mutant.name}: {error}"
    except ValueError as error:  # it names the mutant itself
        return str(error)
    return ""


def test_a_mutant_that_does_not_fit_or_is_no_python_is_told_by_its_name() -> None:
    first = next(iter(MUTANTS.values()))
    assert misfit(first) == ""
    assert misfit(first._replace(old="no such text")).startswith(f"{first.name}: its old text occurs 0 times")
    assert misfit(first._replace(new="(")).startswith(f"{first.name}: ")


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


# --- the page -------------------------------------------------------------------------


def rows_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and " | `" in line]


def test_the_page_has_a_row_for_every_mutant_with_its_group_and_effect() -> None:
    written = PAGE.read_text()
    expected = [
        f"| {group} | `{one.name}` | {one.what} |"
        for part in PARTS.values()
        for group, mutants in part.groups.items()
        for one in mutants
    ]
    assert [row[: len(start)] for row, start in zip(rows_of(written), expected, strict=True)] == expected


def test_every_row_tells_the_runs_of_three_seeds_and_the_commit_of_its_code() -> None:
    for one in read_rows(PAGE.read_text(), MUTANTS).values():
        assert len(one.runs) == 3, one.mutant.name
        assert re.fullmatch(r"[0-9a-f]{8}\+?", one.commit), one.mutant.name
        assert one.rule or not one.is_found, one.mutant.name


def test_exactly_the_mutants_that_are_not_found_are_explained() -> None:
    written = PAGE.read_text()
    assert NOT_EXPLAINED not in written, "give the reason in the `note` of the mutant"
    missed = {line.split("`")[1]: line for line in written.splitlines() if line.startswith("- `")}
    explained = {one.name: f"- `{one.name}`: {one.note}" for one in MUTANTS.values() if one.note}
    assert missed == explained, "run `make mutants`; a mutant that is found needs no note"


def test_the_page_is_written_of_its_rows() -> None:
    written = PAGE.read_text()
    assert "|  |" not in written, "a cell tells nothing"
    assert page(read_rows(written, MUTANTS), 10_000, sessions()) == written, "run `make mutants`"


def test_at_least_60_mutants_are_about_newer_ways_to_drive_a_session_and_all_are_found() -> None:
    rows = read_rows(PAGE.read_text(), MUTANTS)
    groups = {name: group for part in PARTS.values() for name, group in part.groups.items()}
    mutants = [one.name for name in DRIVING for one in groups[name]]
    assert len(mutants) >= 60
    assert [name for name in mutants if not rows[name].is_found] == []
    assert len(set(NAIVE)) == 6
    assert set(mutants) > set(NAIVE)


def measured(name: str, runs: int | None, commit: str = "0" * 8) -> Measured:
    """Build a measurement of the portfolio with one seed. runs: None for a mutant that it did not find."""
    killed: dict[str, object] = (
        {"killed": False, "runs": 9} if runs is None else {"killed": True, "runs": runs, "rule": "R."}
    )
    fifo: dict[str, object] = {"killed": False, "runs": 2}
    told = {("fifo",): fifo, ("explore", "portfolio", "0", "9"): killed}
    return Measured(MUTANTS[name], told, commit)


NAMES = tuple(MUTANTS)[:2]
COUNTS = dict.fromkeys(PARTS, 1)


def test_a_row_tells_each_measurement_and_is_read_again() -> None:
    name = NAMES[0]
    told: dict[tuple[str, ...], dict[str, object]] = {
        ("fifo",): {"killed": False, "runs": 2},
        ("explore", "portfolio", "0", "9"): {"killed": False, "runs": 9},
        ("explore", "portfolio", "1", "9"): {"killed": True, "runs": 1_007, "rule": "One: 3"},
    }
    written = page({name: Measured(MUTANTS[name], told, "0" * 8)}, 9, COUNTS)
    (row,) = rows_of(written)
    assert row.replace(NOT, "-").endswith("| - | -, 1,007 | One | 00000000 |")
    assert f"| all | {len(PARTS)} | 1 | 0 | 1 | 0 |" in written
    (again,) = read_rows(written, MUTANTS).values()
    assert page({name: again}, 9, COUNTS) == written


def test_a_mutant_that_one_seed_missed_is_not_found() -> None:
    written = page({NAMES[0]: measured(NAMES[0], None), NAMES[1]: measured(NAMES[1], 3)}, 9, COUNTS)
    assert written.splitlines()[-1] == f"- `{NAMES[0]}`: {MUTANTS[NAMES[0]].note or NOT_EXPLAINED}"
    assert f"| all | {len(PARTS)} | 2 | 1 | 2 | 1 |" in written
    noted = measured(NAMES[0], None)._replace(mutant=MUTANTS[NAMES[0]]._replace(note="too rare."))
    assert page({NAMES[0]: noted}, 9, COUNTS).splitlines()[-1] == f"- `{NAMES[0]}`: too rare."


def test_new_rows_replace_those_of_the_page_and_the_others_keep_their_commit() -> None:
    old = {name: measured(name, 5, "aaaaaaaa") for name in NAMES}
    rows = merged(old, [measured(NAMES[0], 6, "bbbbbbbb")])
    assert [(name, one.commit) for name, one in rows.items()] == [
        (NAMES[0], "bbbbbbbb"),
        (NAMES[1], "aaaaaaaa"),
    ]


def test_mutants_without_a_row_are_measured_before_the_oldest_row() -> None:
    first, second, *rest = MUTANTS.values()
    head = git("rev-parse", "HEAD")
    rows = {first.name: measured(first.name, 1, head), second.name: measured(second.name, 1)}
    assert oldest_first([first, second, rest[0]], rows) == [rest[0], second, first]


def test_the_core_has_to_pass_as_many_runs_as_the_rarest_mutant_of_a_part_needed() -> None:
    assert needed_of([measured(NAMES[0], 1_001), measured(NAMES[1], 70)]) == [
        ("core", ("fifo",)),
        ("core", ("explore", "portfolio", "0", "2000")),
    ]


# --- the explorer ---------------------------------------------------------------------


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
@pytest.mark.parametrize("part", PARTS)
def test_the_unchanged_core_survives_the_runs(part: str) -> None:
    # Here, since this process has no mutant: each of its own would import everything first.
    assert not campaign.fifo(PARTS[part])["killed"]
    told = campaign.explore([PARTS[part]], "portfolio", "suite", UNCHANGED)
    assert told == {"killed": False, "runs": UNCHANGED}


@pytest.mark.slow
@pytest.mark.parametrize(("part", "name"), [(part, name) for part, names in QUICK.items() for name in names])
def test_exploration_finds_the_mutant_and_fifo_does_not(part: str, name: str) -> None:
    told = child(part, name, *EXPLORE, str(RUNS))
    assert not told["fifo"]["killed"]
    assert told["killed"], f"{name} survives {RUNS} runs"


@pytest.mark.slow
def test_a_seed_finds_a_mutant_again_in_the_same_run_and_schedule() -> None:
    task = ("core", QUICK["core"][0], *EXPLORE, str(RUNS))
    assert child(*task) == run_task(*task)
