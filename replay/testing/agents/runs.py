"""One simulated run, and campaigns of them, for agents as users write them.

    found = simulate(host, policy, "Which files are here?")
    found.outcome.text, found.breaches, found.lines()

    explore(host, policy, "Which files are here?", runs=10_000, faults="all")  # raises BrokenRules

A scenario is what both are made of; write one at the top of a module for `callboard explore module:name`.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import TypedDict, Unpack

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.remarks import ReadsOnly, ReadWatch, remarks_on
from callboard.replay.testing.agents.repeating import repeating
from callboard.replay.testing.agents.scenario_arguments import (
    FaultsLike,
    asks_of,
    faults_of,
    monitors_of,
    recording_of,
    store,
)
from callboard.replay.testing.agents.simulated_ports import Approver, Fakes, Script, scenario_of, setup_of
from callboard.replay.testing.explore import RUNS, Counterexample, Explored, Plan
from callboard.replay.testing.explore import explore as explore_worlds
from callboard.replay.testing.findings import broken_line, chart, no_command
from callboard.replay.testing.findings import lines as lines_of
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.run import Bounds, Scheduler, replay_on
from callboard.replay.testing.schedule import STEPS_MAX, Schedule, parse
from callboard.replay.testing.sessions.monitors import NOTHING_LEFT, breaches_of, session_monitors
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.testing.world import Monitor, Violation, steps_of
from callboard.replay.verify import Verification
from callboard.runtime.agent import Agent, limits_of, roster
from callboard.runtime.files.files import Files
from callboard.runtime.log.opening import open_log
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.sessions.ended_asks import ended_asks
from callboard.runtime.sessions.outcomes import Outcome, outcome_of
from callboard.runtime.sessions.session_types import SessionTypes

SESSION = "simulated"


class SessionOptions(TypedDict, total=False):
    """The options of a `Scenario`, as `simulate` and `explore` take them too."""

    output_schema: object
    limits: Limits | None
    tools: Fakes | None
    approve: Approver | None
    closes: bool
    faults: FaultsLike
    monitors: Sequence[Monitor[SessionWorld]]
    setup: Callable[[], object] | None
    files: Files | None
    reads_twice: bool
    name: str


class Scenario:
    """A session to simulate and explore: its agents, model replies, prompts and possible faults.

    prompt: the client's prompt, or a list of prompts, asked one after the other. output_schema: of the
    answers. limits: of the session. tools: fakes by name, functions of a call's arguments. approve: answers
    for a person. closes: whether the session is closed at the end. faults: kinds of faults, or "all";
    docs/testing.md has their names. monitors: rules beside those of every session. setup: called before each
    run, to reset what code of yours keeps. files: for `ctx.files` of read tools, which must not write them.
    reads_twice: call each read tool twice, which must give the same. name: in reports and schedules; by
    default the host's.

    Raises MisuseError for arguments that cannot be simulated.
    """

    def __init__(
        self,
        agent: Agent,
        policy: Script | None = None,
        prompt: str | Sequence[str] = "go",
        *,
        output_schema: object = None,
        limits: Limits | None = None,
        tools: Fakes | None = None,
        approve: Approver | None = None,
        closes: bool = False,
        faults: FaultsLike = None,
        monitors: Sequence[Monitor[SessionWorld]] = (),
        setup: Callable[[], object] | None = None,
        files: Files | None = None,
        reads_twice: bool = False,
        name: str = "",
    ) -> None:
        if not isinstance(agent, Agent):
            raise MisuseError(f"agent={agent!r:.80}: give the host, an Agent(...)")
        if approve is not None and not callable(approve):
            raise MisuseError(f"approve={approve!r:.80}: give a function of an address and a request")
        watch = ReadWatch(files, reads_twice)
        kind = output_type(output_schema)
        self.types = SessionTypes(roster(agent), agent.name, [kind])
        scenario = scenario_of(agent, policy, tools, approve, self.types, watch)
        asks = asks_of(prompt, kind)
        self.name = name or agent.name
        self.monitors = (*monitors_of(monitors), *([ReadsOnly(watch)] if watch.is_on else ()))
        self.pure = replace(
            scenario,
            asks=asks,
            limits=limits_of(limits),
            closes=closes,
            faults=faults_of(faults),
            setup=setup_of(setup, watch),
        )

    def __call__(self) -> tuple[Worlds, list[Monitor[SessionWorld]]]:
        """Return the worlds and rules for the explorer."""
        return Worlds(self.pure), [*session_monitors(), *map(copy, self.monitors)]

    @cached_property
    def fingerprint(self) -> str:
        """Return the name, and a digest of all arguments that can be written down."""
        told = [encode(self.pure.first), *(encode(one) for one in self.pure.asks)]
        kinds = sorted(self.pure.faults.kinds)
        told.append(msgspec.json.encode([kinds, self.pure.faults.most, self.pure.closes]))
        return f"{self.name} {hashlib.sha256(b'/'.join(told)).hexdigest()[:16]}"

    @cached_property
    def remarks(self) -> list[str]:
        """Return a line for each call of the policy in one run that callboard's own tools refuse."""
        return remarks_on(self.pure)

    def simulate(self, schedule: str = "", *, seed: int | str = 0) -> "Simulation":
        """Simulate one run: of a schedule that the explorer printed, or in the random order of a seed.

        Raises BadSchedule for a schedule of another scenario, ScheduleMisfit if the code no longer
        makes this run.
        """
        world = SessionWorld(self.pure)
        if schedule:
            plan = parse(schedule, self.fingerprint)
            replay_on(world, plan)
            return Simulation(self, world, plan)
        world.run(in_random_order(seed))
        return Simulation(self, world, Schedule(tuple(one.move.strand for one in world.made)))

    def explore(
        self,
        *,
        runs: int = RUNS,
        seconds: float | None = None,
        scheduler: str | Scheduler = "portfolio",
        seed: int | str = 0,
        steps: int = STEPS_MAX,
        keeps_going: bool = False,
        check: bool = True,
    ) -> "Exploration":
        """Explore runs until a rule is broken, or `runs` or `seconds` are used up.

        scheduler: portfolio, random, pos, pct, delays, exhaustive. steps: of a run, before its faults are
        over; it has ten times as many to come to rest. keeps_going: do not stop at the first violation.
        check: False to get the report of broken rules, too, instead of an error.

        Raises BrokenRules if a rule was broken, a goal never reached, or no run came to rest; MisuseError
        for less than one step.
        """
        plan = Plan(scheduler, runs, seconds, seed, Bounds(steps), self.fingerprint, keeps_going)
        return self._explored(plan, _caller(), Scenario.explore, check)

    def _explored(
        self, plan: Plan, caller: FrameType | None, explored: "Callable[..., Exploration]", check: bool
    ) -> "Exploration":
        """Run a campaign. caller: the frame that called `explored`, in whose words a run is repeated."""
        __tracebackhide__ = True  # pytest shows the line of the user
        found = explore_worlds(*self(), plan)
        is_repeatable = found.counterexamples or found.unstable
        command = repeating(caller, explored) if is_repeatable else no_command
        report = Exploration(self, found, command)
        if check:
            report.check()
        return report

    def details(self, schedule: str, rule: str) -> list[str]:
        """Return where and how a run breaks a rule, as far as its log shows that."""
        # Only that rule: a run that ends where it was broken leaves much undone, which is not a breach.
        breaches = self.simulate(schedule).breaches
        return [f"  event {one.seq}: {one.detail}" for one in breaches if one.rule == rule]


@dataclass(eq=False, repr=False)
class Simulation:
    """One finished run. world: as it was at the end. schedule: of its moves."""

    scenario: Scenario
    world: SessionWorld
    schedule: Schedule

    @property
    def events(self) -> list[Event]:
        """Return the log."""
        return self.world.log

    @property
    def outcomes(self) -> list[Outcome]:
        """Return the outcomes of the asks, in order."""
        head = (len(self.world.log), self.recording.head.digest.hex())
        return [outcome_of(SESSION, ask, head, self.scenario.types) for ask in ended_asks(self.world.log)]

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the last ask. Raises MisuseError if none ended."""
        if not (outcomes := self.outcomes):
            raise MisuseError(f"no ask has ended ({self.world.failure or 'the schedule stops before'})")
        return outcomes[-1]

    @property
    def text(self) -> str:
        """Return the schedule: `scenario.simulate(text)` makes this run again."""
        return self.schedule.text(self.scenario.fingerprint)

    @cached_property
    def breaches(self) -> list[Breach]:
        """Return the breaches of callboard's own rules; empty if all hold."""
        found = breaches_of(self.world)
        if self.world.is_at_rest:
            return found
        return [one for one in found if one.name != NOTHING_LEFT.name]  # a schedule may end in mid-work

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Return where the run breaks the scenario's own monitors, each for the first time."""
        if not self.scenario.monitors:
            return ()
        # The run again: while it was made, nothing watched it.
        world = SessionWorld(self.scenario.pure)
        return replay_on(world, self.schedule, [*map(copy, self.scenario.monitors)]).violations

    @cached_property
    def recording(self) -> Recording:
        """Return the run as a recording, for every tool of `callboard.replay`."""
        return recording_of(self.world.log, SESSION, SESSION)

    def verify(self) -> Verification:
        """Run the deciders again on the log: `verify().check()` raises Diverged where they differ from it."""
        return self.recording.verify()

    def save(self, path: str | Path, session_id: str = SESSION) -> None:
        """Write it to a log file, which every `callboard` command can open. Raises StoreError."""
        store(open_log(path), self.world.log, session_id, SESSION)

    def lines(self, width: int = 80) -> list[str]:
        """Return the run as a message-sequence chart, its fault mix, and the rules that it breaks."""
        told = [said] if (said := self.world.conditions()) else []
        if not self.world.is_at_rest:
            told.append("the schedule ends before the run is at rest")
        broken = [*map(broken_line, self.violations), *(f"broken: {breach}" for breach in self.breaches)]
        marked = {one.at for one in self.violations}
        return [*chart(steps_of(self.world), width, marked), *told, *broken]

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(eq=False, repr=False)
class Exploration:
    """The findings of a campaign. explored: its figures, and the counterexamples as the explorer has them.

    command: returns, for the text of a schedule, the line of Python that repeats the run.
    """

    scenario: Scenario
    explored: Explored
    command: Callable[[str], str] = no_command

    @property
    def is_ok(self) -> bool:
        """Return whether no rule was broken, every goal was reached, and some run came to rest."""
        return self.explored.is_ok

    @property
    def counterexamples(self) -> tuple[Counterexample, ...]:
        """Return a small run for every broken rule."""
        return self.explored.counterexamples

    def replay(self, found: Counterexample | None = None) -> Simulation:
        """Replay a counterexample, by default the first. Raises MisuseError if no run broke a rule."""
        if found is None:
            if not self.counterexamples:
                raise MisuseError("no rule was broken, so there is nothing to replay")
            found = self.counterexamples[0]
        return self.scenario.simulate(found.text)

    def lines(self, width: int = 80) -> list[str]:
        """Return the report: counterexamples as charts, the line that repeats each, details, figures."""
        told = lines_of(self.explored, width, self.command, self.scenario.details)
        return [*told, *self.scenario.remarks]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        # Short: pytest cuts the values in a failed assert, and its message unless that is a text.
        return f"<Exploration: {self.lines()[0][:120]} (print it, or call check())>"

    def check(self) -> None:
        """Raise BrokenRules with the report, unless all is well."""
        __tracebackhide__ = True
        if not self.is_ok:
            raise BrokenRules(self)


class BrokenRules(AssertionError):
    """A campaign found a run that breaks a rule, never reached a goal, or had no run that came to rest.

    report: its findings, which the message prints.
    """

    def __init__(self, report: Exploration) -> None:
        super().__init__(str(report))
        self.report = report


def simulate(
    agent: Agent,
    policy: Script | None = None,
    prompt: str | Sequence[str] = "go",
    *,
    schedule: str = "",
    seed: int | str = 0,
    **options: Unpack[SessionOptions],
) -> Simulation:
    """Simulate one session. options: those of `Scenario`; for the others see `Scenario.simulate`."""
    return Scenario(agent, policy, prompt, **options).simulate(schedule, seed=seed)


def explore(
    agent: Agent,
    policy: Script | None = None,
    prompt: str | Sequence[str] = "go",
    *,
    runs: int = RUNS,
    seconds: float | None = None,
    scheduler: str | Scheduler = "portfolio",
    seed: int | str = 0,
    steps: int = STEPS_MAX,
    check: bool = True,
    **options: Unpack[SessionOptions],
) -> Exploration:
    """Explore orders and faults, and raise BrokenRules unless all is well.

    options: those of `Scenario`; for the others and for the errors see `Scenario.explore`.
    """
    __tracebackhide__ = True
    scenario = Scenario(agent, policy, prompt, **options)
    plan = Plan(scheduler, runs, seconds, seed, Bounds(steps), scenario.fingerprint)
    return scenario._explored(plan, _caller(), explore, check)


def _caller() -> FrameType | None:
    """Return the innermost frame outside callboard."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("callboard."):
        frame = frame.f_back
    return frame
