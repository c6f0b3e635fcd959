import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard import pytest_fixtures as testing_campaign
from tests.processes import import_path

pytest_plugins = ("pytester",)

assert testing_campaign.__name__  # loaded here once: pytester forgets the imports of each test

Pytest = Callable[..., pytest.RunResult]

LOST = """
from callboard.replay.testing.monitors import always, sometimes
from callboard.replay.testing.program import Actor, Program, Send

def read(state, sender, message):
    if message == "read":
        return state, [(sender, ("is", state))]
    return message[1], ()

def clerk(state, sender, message):
    return state, [("shelf", ("set", message[1] + 1))] if sender == "shelf" else [("shelf", "read")]

def shop():
    program = Program(
        {"shelf": Actor(0, read), "ann": Actor(0, clerk), "bob": Actor(0, clerk)},
        [Send("client", "ann", "go"), Send("client", "bob", "go")])
    done = lambda world: not world.moves()
    return program.world, [
        always("Two that add one make two", lambda world: not done(world) or world.states["shelf"] == 2)]

def fine():
    return shop()[0], []

def unreached():
    return shop()[0], [sometimes("the shelf holds three", lambda world: world.states["shelf"] == 3)]
"""
"""Two clerks that each read a shelf and put back one more."""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Pytest:
    """Return a function that runs pytest on a test file, with the plugin whether or not it is installed."""
    for name in ("RUNS", "SECONDS", "SEED", "SCHEDULER"):
        monkeypatch.delenv(f"CALLBOARD_{name}", raising=False)

    def run(code: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=LOST + code)
        return pytester.runpytest_inprocess(*PLUGINS, *arguments)

    return run


PLUGINS = ("--disable-plugin-autoload", "-pcallboard.pytest_plugin")
"""Only ours: the plugin of LangSmith alone imports 500 modules, in each run again."""
"""Our plugin, whether or not it is installed; not that of Hypothesis, which would load it again each time."""

BROKEN = """
def test_nothing_is_lost(callboard_explore):
    callboard_explore(shop)
"""
FIGURES = """
def test_it(callboard_explore):
    found = callboard_explore(fine{})
    print("made", found.figures.runs, found.scheduler, found.seed)
"""
ENDLESS = """
def endless():
    return Program({"a": Actor(0, lambda *_: (0, [("a", "m")]))}, [Send("s", "a", "m")]).world, []

def test_it(callboard_explore):
    callboard_explore(endless, runs=5, steps=3, scheduler="pct")
"""


def command_of(result: pytest.RunResult) -> list[str]:
    """Return the arguments of the command that a failure printed."""
    # A set: where pytest finds itself in a build, the command is printed twice.
    (line,) = {line for line in result.outlines if line.startswith("pytest ")}
    return line.split()[1:]


def test_a_broken_rule_fails_the_test_with_chart_seed_and_command(run: Pytest) -> None:
    result = run(BROKEN, "--callboard-seed", "7")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "callboard: 1,000 runs by portfolio, seed 7",
            "scenario test_it:shop",
            "explored with seed 7",
            "broken after step *: Two that add one make two",
            "*shelf*",
            "*seed 7",
            "pytest test_it.py::test_nothing_is_lost --callboard-schedule 1.*",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_the_command_repeats_the_run_and_passes_once_the_bug_is_fixed(run: Pytest) -> None:
    again = command_of(run(BROKEN))
    result = run(BROKEN, *again)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["broken after step *: Two that add one make two"])
    assert "explored with seed" not in result.stdout.str()
    fixed = BROKEN.replace("(shop)", "(fixed)")
    fixed += """
def fixed():
    return shop()[0], []
fixed.__qualname__ = "shop"
"""
    run(fixed, *again).assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_schedule_that_does_not_fit_is_reported(run: Pytest) -> None:
    again = command_of(run(BROKEN))
    other = """
def renamed():
    program = Program({"shelf": Actor(0, read)}, [Send("client", "shelf", "read")])
    return program.world, []
renamed.__qualname__ = "shop"
def test_nothing_is_lost(callboard_explore):
    callboard_explore(renamed)
"""
    result = run(other, *again)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the schedule no longer fits at step*"])
    result = run(BROKEN.replace("(shop)", "(fine)"), *again)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*belongs to no scenario that this test explored*"])


def test_a_goal_that_no_run_reached_fails_the_test(run: Pytest) -> None:
    result = run("def test_it(callboard_explore):\n    callboard_explore(unreached)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["never reached: the shelf holds three"])


def test_the_test_gets_the_figures_of_the_campaign(run: Pytest) -> None:
    result = run(FIGURES.format(", runs=12, scheduler='pos', seed=3"), "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*made 12 pos 3*"])


@pytest.mark.slow
def test_command_line_goes_before_environment_before_test_before_ini(
    run: Pytest, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\ncallboard_runs = 11\ncallboard_seed = ini\n")
    run(FIGURES.format(""), "-s").stdout.fnmatch_lines(["callboard: 11 runs*seed ini", "*made 11 *ini*"])
    run(FIGURES.format(", runs=12"), "-s").stdout.fnmatch_lines(["*made 12 *ini*"])
    monkeypatch.setenv("CALLBOARD_RUNS", "13")
    run(FIGURES.format(", runs=12"), "-s").stdout.fnmatch_lines(["*made 13 *ini*"])
    result = run(FIGURES.format(", runs=12"), "-s", "--callboard-runs", "14", "--callboard-scheduler", "pct")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*made 14 pct ini*"])


def test_a_random_seed_is_drawn_once_and_shown(run: Pytest) -> None:
    result = run(
        FIGURES.format("") + FIGURES.format("").replace("test_it", "test_more"),
        "-s",
        "--callboard-seed=random",
    )
    (header,) = [line for line in result.outlines if line.startswith("callboard: ")]
    seed = header.split()[-1]
    assert seed not in ("random", "0")
    assert len([line for line in result.outlines if f"portfolio {seed}" in line]) == 2


def test_seconds_bound_a_campaign_instead_of_runs(run: Pytest) -> None:
    result = run(FIGURES.format(", scheduler='random'"), "-s", "--callboard-seconds", "0.000001")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["callboard: 1e-06 s by portfolio, seed 0", "*made 1 random*"])


@pytest.mark.parametrize(
    "option",
    [
        ("--callboard-runs", "many"),
        ("--callboard-runs", "0"),
        ("--callboard-seconds", "-1"),
        ("--callboard-seconds", "nan"),
        ("--callboard-seconds", "inf"),
    ],
)
def test_invalid_numbers_end_pytest_at_once(run: Pytest, option: tuple[str, str]) -> None:
    result = run(BROKEN, *option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*callboard: runs * and seconds * must be numbers above 0"])


def test_an_unknown_scheduler_ends_pytest_at_once(run: Pytest) -> None:
    result = run(BROKEN, "--callboard-scheduler", "best")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*callboard: there is no scheduler 'best'; use one of portfolio*"])


def test_a_value_that_cannot_be_explored_is_refused_with_the_type_that_can(run: Pytest) -> None:
    result = run("def test_it(callboard_explore):\n    callboard_explore(3)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*is of type int; a scenario is a callboard.testing.Scenario*"])


@pytest.mark.slow
def test_until_a_test_explores_the_plugin_loads_nothing(tmp_path: Path) -> None:
    script = (
        "import sys, pytest; before = set(sys.modules); import callboard.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": import_path(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [name for name in done.stdout.split() if name not in sys.stdlib_module_names]
    assert [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names] == [
        "callboard",
        "callboard.lazy_names",
        "callboard.pytest_plugin",
    ]


def test_a_campaign_in_which_no_run_comes_to_rest_fails_the_test(run: Pytest) -> None:
    result = run(ENDLESS)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["no run came to rest, so no rule about the end was looked at", "5 runs were cut after 30 steps*"]
    )
