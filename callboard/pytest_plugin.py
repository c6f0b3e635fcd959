"""Campaigns and recordings in pytest: fixtures, and options.

    def test_booking(callboard_explore):
        callboard_explore(scenario)

    pytest --callboard-runs 100000 --callboard-seed random

    def test_survey(recording):
        recording("survey.jsonl", agent="survey:host")

    pytest --callboard-update

A campaign fails with the counterexample: the rule, the chart, the seed, and the command that repeats the run.
A recording fails with the requests and decisions that differ, or is written again.
Options of the command line override the environment (CALLBOARD_RUNS, CALLBOARD_SEED), the environment
overrides the arguments in the test, and those override the ini file.
"""

# Every pytest of an environment with callboard loads this file, so it imports nothing until a test explores.

import math
import os
import secrets
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from callboard.pytest_fixtures import Explorer, Recordings

UPDATED = "callboard_updated"
"""The name under which a test's report tells of a recording that was written again."""

RUNS = 1_000
"""The default runs of a campaign in a test: a few seconds."""

_DEFAULT = "portfolio"


class Bounds(NamedTuple):
    """The size and the order of a campaign. runs, seconds: None if they do not limit it."""

    runs: int | None
    seconds: float | None
    seed: str
    scheduler: str


_OPTIONS = {
    "runs": ("N", f"runs of each campaign; {RUNS:,}, or with seconds as many as fit"),
    "seconds": ("S", "end each campaign after this many seconds"),
    "seed": ("SEED", "any text; 'random' draws a seed, and the header shows it"),
    "scheduler": ("NAME", "portfolio, random, pos, pct, delays or exhaustive"),
}
"""The options by their names on the command line, in the environment and in ini files."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, for the command line and for ini files."""
    group = parser.getgroup("callboard", "exploring how agents delegate")
    for name, (metavar, told) in _OPTIONS.items():
        group.addoption(f"--callboard-{name}", metavar=metavar, default=None, help=told)
        parser.addini(f"callboard_{name}", told, default="")
    group.addoption(
        "--callboard-schedule",
        metavar="TEXT",
        default=None,
        help="repeat one run, from the text that a failure printed, instead of its campaign",
    )
    group.addoption(
        "--callboard-update",
        action="store_true",
        help="write recordings again whose requests differ, unless a decision does",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed once for all processes of this run, check the numbers, and declare our marker."""
    if (_asked(config, "seed") or _ini(config, "seed")) == "random":
        config.option.callboard_seed = secrets.token_hex(4)
    found = bounds_of(config)
    if found.scheduler != _DEFAULT:
        _check_scheduler(found.scheduler)
    config.addinivalue_line("markers", "slow: takes more than a quarter of a second (StoreContract has some)")


def pytest_report_header(config: pytest.Config) -> str:
    """Show the bounds of the campaigns of this run."""
    found = bounds_of(config)
    bounds = [f"{found.runs:,} runs" if found.runs else "", f"{found.seconds:g} s" if found.seconds else ""]
    return f"callboard: {', '.join(filter(None, bounds))} by {found.scheduler}, seed {found.seed}"


@pytest.fixture
def callboard_explore(request: pytest.FixtureRequest) -> "Iterator[Explorer]":
    """Explore scenarios. The test fails with the counterexample, or if a goal was never reached."""
    from callboard.pytest_fixtures import Explorer

    explorer = Explorer(request, partial(bounds_of, request.config))
    yield explorer
    explorer.finish()


@pytest.fixture
def recording(request: pytest.FixtureRequest) -> "Recordings":
    """Replay recordings strictly, with the recorded agents or with those of today. No model is called."""
    from callboard.pytest_fixtures import Recordings

    return Recordings(request, UPDATED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the recordings that `--callboard-update` has written again, and what has changed in them."""
    reports = [one for found in terminalreporter.stats.values() for one in found]
    if told := [line for one in reports for line in _updates(one)]:
        terminalreporter.section("callboard: recordings written again")
        terminalreporter.write_line("\n".join(told))


def _updates(report: object) -> list[str]:
    """Return what a test's report tells of recordings that were written again."""
    if not isinstance(report, pytest.TestReport) or report.when != "call":
        return []
    return [f"{report.nodeid}: {said}" for name, said in report.user_properties if name == UPDATED]


def bounds_of(config: pytest.Config, **told: object) -> Bounds:
    """Return the bounds of a campaign. told: those of the test. Raises pytest.UsageError."""
    said = {name: str(value) for name, value in told.items() if value is not None}
    found = {name: _asked(config, name) or said.get(name) or _ini(config, name) for name in _OPTIONS}
    try:
        time = float(found["seconds"]) if found["seconds"] else None
        count = int(found["runs"].replace("_", "")) if found["runs"] else None
        if (count is not None and count < 1) or (time is not None and not 0 < time < math.inf):
            raise ValueError("not above 0")
    except ValueError as error:
        raise pytest.UsageError(
            f"callboard: runs {found['runs']!r} and seconds {found['seconds']!r} must be numbers above 0"
        ) from error
    count = count or (RUNS if time is None else None)
    return Bounds(count, time, found["seed"] or "0", found["scheduler"] or _DEFAULT)


def _check_scheduler(name: str) -> None:
    """Raise pytest.UsageError for an unknown scheduler, before any test runs."""
    from callboard.actors.protocol.errors import MisuseError
    from callboard.replay.testing.schedulers.portfolio import scheduler_named

    try:
        scheduler_named(name)
    except MisuseError as error:
        raise pytest.UsageError(f"callboard: {error}") from error


def _asked(config: pytest.Config, name: str) -> str:
    """Return the value on the command line, else the one in the environment."""
    value: str | None = config.getoption(f"callboard_{name}", None)
    return value if value is not None else os.environ.get(f"CALLBOARD_{name.upper()}", "")


def _ini(config: pytest.Config, name: str) -> str:
    return str(config.getini(f"callboard_{name}"))
