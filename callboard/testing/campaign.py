"""The fixture `callboard_explore`: a campaign for a test, with failures as pytest shows them."""

import shlex
from collections.abc import Callable

import pytest

from callboard.replay.testing.explore import Explored, Plan, explore
from callboard.replay.testing.run import Bounds
from callboard.replay.testing.schedule import STEPS_MAX, Schedule, fingerprint, parse
from callboard.replay.testing.statistics import Figures, Statistics
from callboard.testing.runs import Scenario
from callboard.testing.subject import Subject, made, protocol_name, run_lines, subject_of

_RUNS_IN_TIME = 1 << 40
"""Runs of a campaign that is bounded by time alone."""


class Explorer:
    """Explores scenarios for one test. bounds_of: makes the bounds of a campaign from those of the test."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        bounds_of: Callable[..., tuple[int | None, float | None, str, str]],
    ) -> None:
        self._config = request.config
        self._bounds_of = bounds_of
        self._test = request.node.nodeid
        self._schedule: str = request.config.getoption("callboard_schedule", None) or ""
        self._is_replayed = False

    def __call__(
        self,
        scenario: object,
        *,
        runs: int | None = None,
        seconds: float | None = None,
        seed: int | str | None = None,
        scheduler: str | None = None,
        steps: int = STEPS_MAX,
    ) -> Explored:
        """Explore a `callboard.testing.Scenario`, or a function that returns worlds and rules.

        Fail the test if a rule is broken, a goal never reached, or no run comes to rest. If one run of this
        scenario was asked for, make that run alone. Options of pytest and the environment override those
        given here. steps: of a run with faults; it then has ten times as many to come to rest.
        """
        __tracebackhide__ = True
        subject = subject_of(scenario, _name(scenario))
        if self._schedule.partition(".")[2].startswith(f"{fingerprint(subject.fingerprint)}."):
            self._is_replayed = True
            return self._replay(subject, parse(self._schedule, subject.fingerprint))
        count, time, drawn, name = self._bounds_of(runs=runs, seconds=seconds, seed=seed, scheduler=scheduler)
        plan = Plan(name, count or _RUNS_IN_TIME, time, drawn, Bounds(steps), subject.fingerprint)
        found = explore(*subject(), plan)
        if not found.is_ok:
            told = subject.lines(found, self._width, self._command)
            _fail(subject, [f"explored with seed {found.seed}", "", *told])
        return found

    def _replay(self, subject: Subject, schedule: Schedule) -> Explored:
        """Make this run alone. Raises ScheduleMisfit if the code no longer makes it."""
        __tracebackhide__ = True
        run, world = made(subject, schedule)
        if run.violation is not None:
            _fail(subject, run_lines(subject, run, world, self._width))
        statistics = Statistics()
        statistics.add(world, run)
        figures = Figures.of(statistics)
        return Explored(figures, (), (), False, "replay", 0, subject.fingerprint, seconds=0.0)

    @property
    def _width(self) -> int:
        return self._config.get_terminal_writer().fullwidth

    def _command(self, text: str) -> str:
        return f"pytest {shlex.quote(self._test)} --callboard-schedule {text}"

    def finish(self) -> None:
        """End the test. Fail it if the requested run belongs to none of its scenarios."""
        if self._schedule and not self._is_replayed:
            pytest.fail(
                "the run of --callboard-schedule belongs to no scenario that this test explored: copy the "
                "whole command that the failure printed",
                pytrace=False,
            )


def _fail(subject: Subject, lines: list[str]) -> None:
    pytest.fail("\n".join([f"scenario {subject.name}", *lines]), pytrace=False)


def _name(scenario: object) -> str:
    if isinstance(scenario, Scenario):
        return scenario.name
    return protocol_name(scenario) if callable(scenario) else "the scenario"
