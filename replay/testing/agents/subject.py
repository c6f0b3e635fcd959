"""The subject of an exploration from the command line or pytest: a scenario of any kind, and its name.

A session is a `Scenario`, or a function without arguments that makes one. A protocol is a function without
arguments that gives how a world is made, and its rules.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.agents.runs import Scenario
from callboard.replay.testing.explore import Explored
from callboard.replay.testing.findings import broken_line, chart
from callboard.replay.testing.findings import lines as lines_of
from callboard.replay.testing.run import Run, replay_on
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.world import MakeWorld, Monitor, World, conditions_of, steps_of

Parts: TypeAlias = tuple[MakeWorld[Any], Sequence[Monitor[Any]]]
"""A maker of worlds, and the rules."""


@dataclass(frozen=True)
class Subject:
    """A scenario to explore."""

    name: str
    session: Scenario | None  # None for a protocol
    fingerprint: str  # what its schedules belong to
    parts: Callable[[], Parts]  # makes worlds and rules, both new

    def __call__(self) -> Parts:
        """Return the function that makes worlds, and the rules."""
        return self.parts()

    def lines(self, found: Explored, width: int, command: Callable[[str], str]) -> list[str]:
        """Return the report of a campaign; of sessions with the details of each breach."""
        told = lines_of(found, width, command, self.details)
        return [*told, *(self.session.remarks if self.session else ())]

    def details(self, schedule: str, rule: str) -> list[str]:
        """Return where and how a run of a session breaks a rule, as far as its log shows that."""
        return self.session.details(schedule, rule) if self.session else []


def subject_of(value: object, name: str) -> Subject:
    """Return the scenario that a value is or makes. Raises MisuseError if it cannot be explored."""
    if isinstance(value, Scenario):
        return Subject(name, value, value.fingerprint, value)
    if not _takes_nothing(value):
        raise MisuseError(f"{name} is of type {type(value).__name__}; {_WANTED}")
    made = value()
    if isinstance(made, Scenario):
        return Subject(name, made, made.fingerprint, made)
    if not _is_parts(made):
        raise MisuseError(f"{name}() gave {type(made).__name__}; {_WANTED}")
    return Subject(name, None, protocol_name(value), value)


def made(subject: Subject, schedule: Schedule) -> tuple[Run, World]:
    """Make the run of a schedule. Raises ScheduleMisfit if the code no longer makes it."""
    make_world, monitors = subject()
    world: Any = make_world()
    return replay_on(world, schedule, monitors), world


def run_lines(subject: Subject, run: Run, world: World, width: int) -> list[str]:
    """Return one run as a chart, and each rule that it breaks."""
    conditions = [said] if (said := conditions_of(world)) else []
    text = run.schedule.text(subject.fingerprint)
    told: list[str] = []
    for one in run.violations:
        told += [broken_line(one), *subject.details(text, one.rule)]
    marked = {one.at for one in run.violations}
    return [*chart(steps_of(world), width, marked), "", *conditions, *(told or [_whole(run)])]


def _whole(run: Run) -> str:
    """Return the line about a run without a violation; a schedule may stop before rules of rest apply."""
    counted = f"{len(run.made)} step{'s' * (len(run.made) != 1)}"
    stops = "" if run.is_at_rest else "; the schedule ends before the run is at rest"
    return f"{counted}, no rule is broken{stops}"


_WANTED = (
    "a scenario is a callboard.testing.Scenario(agent, policy, prompt), a function without arguments that "
    "makes one, or one that gives (make_world, monitors)"
)


def protocol_name(function: Callable[..., object]) -> str:
    """Return the last part of a function's module and its name: the same wherever it is loaded from."""
    module = getattr(function, "__module__", "").rpartition(".")[2]
    return f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"


def _is_parts(made: object) -> bool:
    return isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], Sequence)


def _takes_nothing(value: object) -> TypeGuard[Callable[[], Any]]:
    """Return whether a value is a function, no class, that can be called without arguments."""
    if not callable(value):
        return False
    try:
        inspect.signature(value).bind()  # TypeError if it needs an argument
    except (TypeError, ValueError):
        return False
    return not isinstance(value, type)
