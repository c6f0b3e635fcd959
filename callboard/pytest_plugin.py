"""Campaigns in pytest: a fixture that explores a scenario, and options that say how much.

    def test_booking(callboard_explore):
        callboard_explore(scenario)

    pytest --callboard-runs 100000 --callboard-seed random

The test fails with the counterexample: the rule, the chart, the seed, and the command that makes the run
again. The command line goes before the environment (CALLBOARD_RUNS, CALLBOARD_SEED), that before what the
test itself says, and that before the ini file.

Loaded by every pytest of an environment that has callboard, so it imports nothing until a test explores.
"""

import math
import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pytest

if TYPE_CHECKING:
    from callboard.replay.testing.explore import Explored

RUNS = 1_000
"""Runs of a campaign in a test, where nobody says otherwise: a few seconds."""


_DEFAULT = "portfolio"


class Wanted(NamedTuple):
    """What is asked for. runs, seconds: None where a campaign is not bounded by them."""

    runs: int | None
    seconds: float | None
    seed: str
    scheduler: str


class _Option(NamedTuple):
    """One option: its name everywhere, what it is, and how it is read."""

    name: str
    metavar: str
    help: str

    @property
    def key(self) -> str:
        return f"callboard_{self.name}"


_OPTIONS = (
    _Option("runs", "N", f"runs of each campaign; {RUNS:,}, or with seconds as many as there is time for"),
    _Option("seconds", "S", "end each campaign after so many seconds"),
    _Option("seed", "SEED", "any text; 'random' draws one, and the header shows it"),
    _Option("scheduler", "NAME", "portfolio, random, pos, pct, delays or exhaustive"),
)


class ExploreFixture(Protocol):
    """Explores a scenario: a `callboard.testing.Scenario`, or a function that gives worlds and rules."""

    def __call__(
        self,
        scenario: object,
        *,
        runs: int | None = None,
        seconds: float | None = None,
        seed: int | str | None = None,
        scheduler: str | None = None,
        steps: int = 200,
    ) -> "Explored":
        """Explore it. Fails the test if a rule is broken, a goal never reached, or no run comes to rest.

        runs, seconds, seed, scheduler: for this campaign, unless somebody asks for others when it is run.
        steps: of a run before its faults are over; it has ten times as many to come to rest.
        """
        ...


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, and the same for ini files."""
    group = parser.getgroup("callboard", "exploring how agents delegate")
    for one in _OPTIONS:
        group.addoption(f"--callboard-{one.name}", metavar=one.metavar, default=None, help=one.help)
        parser.addini(one.key, one.help, default="")
    group.addoption(
        "--callboard-schedule",
        metavar="TEXT",
        default=None,
        help="make this one run, as a failure printed it, in place of the campaign that it belongs to",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed once, for all processes of this run; refuse numbers that are none. Name our markers."""
    if _asked(config, "seed") == "random" or (
        not _asked(config, "seed") and _ini(config, "seed") == "random"
    ):
        config.option.callboard_seed = secrets.token_hex(4)
    found = wanted(config)
    if found.scheduler != _DEFAULT:
        _check_scheduler(found.scheduler)
    config.addinivalue_line("markers", "slow: takes more than a quarter of a second (StoreContract has some)")


def pytest_report_header(config: pytest.Config) -> str:
    """What campaigns of this run do, unless a test says otherwise."""
    found = wanted(config)
    bounds = [f"{found.runs:,} runs" if found.runs else "", f"{found.seconds:g} s" if found.seconds else ""]
    return f"callboard: {', '.join(filter(None, bounds))} by {found.scheduler}, seed {found.seed}"


@pytest.fixture
def callboard_explore(request: pytest.FixtureRequest) -> Iterator[ExploreFixture]:
    """Explores scenarios. The test fails with the counterexample, or if a goal was never reached."""
    from callboard.testing.campaign import Explorer

    explorer = Explorer(request, lambda said: wanted(request.config, *said))
    yield explorer
    explorer.finish()


def wanted(
    config: pytest.Config,
    runs: int | None = None,
    seconds: float | None = None,
    seed: int | str | None = None,
    scheduler: str | None = None,
) -> Wanted:
    """What is asked for, by whomever; the arguments are what a test says. Raises pytest.UsageError."""
    said = {"runs": runs, "seconds": seconds, "seed": seed, "scheduler": scheduler}
    told = {name: str(value) for name, value in said.items() if value is not None}
    found = {one.name: _value(config, one, told.get(one.name, "")) for one in _OPTIONS}
    try:
        time = float(found["seconds"]) if found["seconds"] else None
        count = int(found["runs"].replace("_", "")) if found["runs"] else None
        if (count is not None and count < 1) or (time is not None and not 0 < time < math.inf):
            raise ValueError("less than one")
    except ValueError as error:
        raise pytest.UsageError(
            f"callboard: runs {found['runs']!r} and seconds {found['seconds']!r} must be numbers above 0"
        ) from error
    count = count or (RUNS if time is None else None)
    return Wanted(count, time, found["seed"] or "0", found["scheduler"] or _DEFAULT)


def _check_scheduler(name: str) -> None:
    """Raises pytest.UsageError for a name that is none, before any test runs."""
    from callboard.actors.protocol.errors import MisuseError
    from callboard.replay.testing.schedulers.portfolio import scheduler_named

    try:
        scheduler_named(name)
    except MisuseError as error:
        raise pytest.UsageError(f"callboard: {error}") from error


def _value(config: pytest.Config, option: _Option, told: str) -> str:
    return _asked(config, option.name) or told or _ini(config, option.name)


def _asked(config: pytest.Config, name: str) -> str:
    """What the command line or the environment says."""
    value: str | None = config.getoption(f"callboard_{name}", None)
    return value if value is not None else os.environ.get(f"CALLBOARD_{name.upper()}", "")


def _ini(config: pytest.Config, name: str) -> str:
    return str(config.getini(f"callboard_{name}"))
