"""The fixture `callboard_explore`: a campaign for a test, with failures as pytest shows them.

The fixture `recording`: a recorded session, replayed strictly, and written again where that is wanted.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click import ClickException

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.events import Event
from callboard.cli.changed_agents import replay_with
from callboard.replay.changed.result import ChangedReplay
from callboard.replay.exports.jsonl import ExportReader, Header
from callboard.replay.formats import counted
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.runs import Scenario
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.agents.subject import Subject, made, protocol_name, run_lines, subject_of
from callboard.replay.testing.explore import Explored, Plan, explore
from callboard.replay.testing.run import Bounds
from callboard.replay.testing.schedule import STEPS_MAX, Schedule, fingerprint, parse
from callboard.replay.testing.statistics import Figures, Statistics

_RUNS_IN_TIME = 1 << 40
"""Runs of a campaign that is bounded by time alone."""
_LINES: Final = 60  # of what differs, in a failure


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


class Recordings:
    """Replays recordings for one test. told_as: the name under which its report tells of an update."""

    def __init__(self, request: pytest.FixtureRequest, told_as: str) -> None:
        self._told_as = told_as
        self._folder = request.path.parent
        self._root = str(request.config.rootpath)
        self._told = request.node.user_properties
        self._is_updating = bool(request.config.getoption("callboard_update", False))

    def __call__(self, path: str | Path, agent: str = "", *, key: bytes | None = None) -> Recording:
        """Replay a recording strictly, and return it. Fail the test if something differs.

        path: a `jsonl` export of one session; a relative one is beside the test. agent: `module:agent`, with
        whose agents it is replayed: no request and no decision may differ. Without it the session is
        verified: callboard itself must decide as it did. key: the digest key of the log, if it has one.
        """
        __tracebackhide__ = True
        file = self._folder / path
        try:
            found = load_recording(file, key)
            what = self._difference(found, agent)
        except (CallboardError, ClickException) as error:
            pytest.fail(f"{file.name}: {error}", pytrace=False)
        if what is None:
            return found
        if not self._is_updating:
            pytest.fail(_failure(file, what, agent), pytrace=False)
        return self._write_again(file, found, what, key)

    def _difference(self, found: Recording, agent: str) -> ChangedReplay | None:
        """Return the replay of a recording that is not made again; None for one that is."""
        if agent:
            replayed = replay_with(found, agent, folder=self._root)
            return None if replayed.is_same else replayed
        return None if found.verify().is_ok else found.against()

    def _write_again(self, file: Path, found: Recording, what: ChangedReplay, key: bytes | None) -> Recording:
        __tracebackhide__ = True
        if what.log is None:
            pytest.fail(
                f"{file.name} is not rewritten, because a decision differs: its answers are to another "
                "conversation. Record the session again, and export it\n" + _told(what),
                pytrace=False,
            )
        if key is not None:
            pytest.fail(f"{file.name} has a digest key: export the session from its log again", pytrace=False)
        again = recording_of(what.log, found.session_id)
        again.verify().check()
        again.export("jsonl", file)
        self._told.append((self._told_as, f"{file.name}: {_changes(found, what)}"))
        return again


def load_recording(path: str | Path, key: bytes | None = None) -> Recording:
    """Load the session of a `jsonl` export into memory, every digest checked.

    key: the digest key of the log, if it has one. The loaded events have digests of their own, without a key.
    Raises CorruptLog, MisuseError for a file that cannot be read or holds more than one session, WrongKey.
    """
    headers: list[Header] = []
    events: list[Event] = []
    try:
        with Path(path).open("rb") as file, ExportReader(file, key, str(path)) as reader:
            for item in reader.items():
                if isinstance(item, Header):
                    headers.append(item)
                else:
                    events.append(item[0])
    except OSError as error:
        raise MisuseError(f"the recording {path} cannot be read: {error.strerror}") from None
    if len(headers) != 1:
        raise MisuseError(f"{path} holds {len(headers)} sessions; export one")
    return recording_of(events, headers[0].session, headers[0].title)


def _failure(file: Path, what: ChangedReplay, agent: str) -> str:
    by = f"the agents of {agent} differ" if agent else "this callboard decides differently"
    advice = "if the change is intended: pytest --callboard-update" if what.log is not None else ""
    return "\n".join(filter(None, (f"{file.name}: {by}", _told(what), advice)))


def _told(what: ChangedReplay) -> str:
    lines = what.lines()
    more = [f"… {len(lines) - _LINES} more lines: callboard replay --with"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more])


def _changes(found: Recording, what: ChangedReplay) -> str:
    """Return what has changed in a recording, in words."""
    assert what.log is not None
    before, now = list(found.events), what.log
    same = sum(one == other for one, other in zip(before, now, strict=False))
    agents = ", ".join(f"{one.agent} from turn {one.turn}" for one in what.requests)
    requests = f"the requests of {agents}" if agents else "no request"
    return f"{counted(max(len(before), len(now)) - same, 'event')} of {len(now):,}, {requests}"
