"""A campaign: run after run, watched by rules, until one is broken or enough was tried.

    rules = [always("No two leaders have one term", one_leader)]
    found = explore(program.world, rules, Plan(runs=10_000, seed=7))
    assert found.is_ok, "\\n".join(lines(found))

Rules
  - A campaign with the same plan makes the same runs and finds the same violation, as long as it is bounded
    by runs and not by seconds; these bound shrinking too. However short its time, it makes one run.
  - It fails if a rule is broken, if no run reached a goal (`sometimes`), or if every run was ended by its
    bounds: then no rule of rest was ever looked at.
  - A run that is not the same when it is made again ends the campaign: see `stability`.
  - Memory is flat: nothing is kept of a run but hashes, within limits, and the first violation of each rule.
"""

from collections.abc import Callable, Sequence
from math import inf
from random import Random
from typing import Generic, NamedTuple

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.near_names import NamedFields
from callboard.replay.testing.monitors import KeptRun, Unstable, unmet
from callboard.replay.testing.run import DEFAULT, Bounds, Run, Scheduler, perform, replay_on
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.shrink import Shrunk, shrink
from callboard.replay.testing.statistics import Figures, Statistics, Stopwatch
from callboard.replay.testing.world import (
    MakeWorld,
    Monitor,
    Move,
    Step,
    Violation,
    W,
    World,
    conditions_of,
    is_count,
    steps_of,
)

RUNS = 10_000
AGAIN = 2
"""The times that a campaign makes its first run again in the end."""

LATE_S = 1.0
"""Seconds to shrink in, for a violation that is found when the time of a campaign is all but over."""


class Counterexample(Shrunk, frozen=True, kw_only=True, metaclass=NamedFields):
    """A run that breaks a rule, made as small as possible.

    steps: of the small run. found: the run as it was found. run: its number, from 1. scheduler: that picked
    it. conditions: the choice for the whole run, in words: the fault mix of a session.
    """

    steps: tuple[Step, ...]
    found: Schedule
    run: int
    scheduler: str
    seed: int | str
    scenario: str
    conditions: str

    @property
    def text(self) -> str:
        """Return the schedule as text, to replay it."""
        return self.schedule.text(self.scenario)


class Explored(msgspec.Struct, frozen=True):
    """The result of a campaign. is_exhausted: True if it has made every possible run.

    unstable: a run that differed when it was made again, None for none. Then no other result is reliable.
    """

    figures: Figures
    counterexamples: tuple[Counterexample, ...]
    unmet_goals: tuple[str, ...]
    is_exhausted: bool
    scheduler: str
    seed: int | str
    scenario: str
    seconds: float
    unstable: Unstable | None = None

    @property
    def is_ok(self) -> bool:
        """Return whether no rule was broken, every goal was reached, and not every run ended by a bound.

        False, too, if a run was not the same when it was made again.
        """
        return not (self.counterexamples or self.unmet_goals or self.is_without_end or self.unstable)

    @property
    def is_without_end(self) -> bool:
        """Return whether bounds ended runs and no run came to rest."""
        return self.figures.unfinished > 0 and not self.figures.at_rest


class Plan(msgspec.Struct, frozen=True):
    """The options of a campaign. Raises MisuseError if nothing would be run, or without end."""

    scheduler: str | Scheduler = "portfolio"  # its name, or one that you made
    runs: int = RUNS
    seconds: float | None = None
    seed: int | str = 0
    bounds: Bounds = DEFAULT
    scenario: str = ""  # the name of the world
    keeps_going: bool = False  # beyond the first violation
    shrinks: bool = True  # makes counterexamples small

    def __post_init__(self) -> None:
        if not isinstance(self.scheduler, str) and not hasattr(self.scheduler, "choose"):
            raise MisuseError(
                f"scheduler={self.scheduler!r:.80}: give a name, such as 'portfolio', or a Scheduler"
            )
        if not is_count(self.runs, 1):
            raise MisuseError(f"runs={self.runs!r}: a campaign has a number of runs, 1 or more")
        if not _is_time_or_none(self.seconds):
            raise MisuseError(
                f"seconds={self.seconds!r}: give a number of seconds above 0, or None for no bound"
            )


def _is_time_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and value is not True and 0 < value < inf)


DEFAULT_PLAN = Plan()


class ShardResult(NamedTuple):
    """The findings of a campaign, or of one process of it. counterexamples: the first one of each rule."""

    statistics: Statistics
    counterexamples: list[Counterexample]
    unmet_goals: tuple[str, ...]
    is_exhausted: bool
    unstable: Unstable | None = None


class Campaign(Generic[W]):
    """A campaign under way. statistics: the figures so far."""

    def __init__(self, make_world: MakeWorld[W], monitors: Sequence[Monitor[W]], plan: Plan) -> None:
        self._make_world = make_world
        self._monitors = monitors
        self._plan = plan
        scheduler = plan.scheduler
        self._scheduler = scheduler_named(scheduler, plan.seed) if isinstance(scheduler, str) else scheduler
        self._fair = Random(f"{plan.seed}/fair").random
        self._counterexamples: dict[str, Counterexample] = {}
        self._first: KeptRun | None = None
        self._unstable: Unstable | None = None
        self._watch = Stopwatch()
        self.statistics = Statistics()

    def run(
        self,
        begins: Callable[[Statistics], bool] = lambda statistics: True,
        finishes: Callable[[World], None] = lambda world: None,
    ) -> ShardResult:
        """Make runs until the plan is fulfilled, or `begins` says no; tell `finishes` of each."""
        is_exhausted = False
        while not is_exhausted and self._goes_on() and begins(self.statistics):
            is_exhausted = not self.one(finishes)
        for _ in range(AGAIN):
            if self._first is not None and self._unstable is None:
                self._compare(1, self._first)
        found = list(self._counterexamples.values())
        return ShardResult(self.statistics, found, unmet(self._monitors), is_exhausted, self._unstable)

    def _goes_on(self) -> bool:
        plan, runs = self._plan, self.statistics.runs
        if runs >= plan.runs or (self._counterexamples and not plan.keeps_going) or self._unstable:
            return False
        return plan.seconds is None or not runs or self._watch.seconds < plan.seconds

    def one(self, finishes: Callable[[World], None] = lambda world: None) -> bool:
        """Make one run; return False if every run was made."""
        world, scheduler, statistics = self._make_world(), self._scheduler, self.statistics
        if not scheduler.begin(world):
            return False
        is_sampled, widest = statistics.is_sampled(), 0
        first = choose = scheduler.choose

        def measured(offered: Sequence[Move]) -> Move | None:
            nonlocal widest
            widest = max(widest, len(offered))
            return choose(offered)

        if is_sampled:
            first = measured
        run = perform(world, self._monitors, first, self._any, self._plan.bounds)
        scheduler.finish(world)
        finishes(world)
        statistics.add(world, run)
        if self._first is None:
            self._first = KeptRun.of(world, run)
        if is_sampled:
            statistics.look_closely(world, run.made, widest)
        if run.violation is not None and not self._is_unstable(world, run, run.violation):
            self._keep(run, run.violation, conditions_of(world))
        return True

    def _is_unstable(self, world: W, run: Run, violation: Violation) -> bool:
        """Look whether a run that breaks a rule does so again, before it is made small."""
        if violation.rule in self._counterexamples:
            return False
        number = self.statistics.runs
        if not violation.at and number > 1:
            told = f"a rule is broken before its first step, and was not before run 1: {violation.rule}"
            self._unstable = Unstable(number, told, run.schedule)
        else:
            self._compare(number, KeptRun.of(world, run), of_rules_only=True)
        return self._unstable is not None

    def _compare(self, number: int, kept: KeptRun, *, of_rules_only: bool = False) -> None:
        difference = kept.difference(self._make_world, self._monitors, of_rules_only=of_rules_only)
        if difference:
            self._unstable = Unstable(number, difference, kept.schedule)

    def _any(self, offered: Sequence[Move]) -> Move | None:
        """Choose a move at random."""
        return offered[int(self._fair() * len(offered))]

    def _time_to_shrink(self) -> Callable[[], bool]:
        """Return the check for the end of the campaign's time, which grants a moment in any case."""
        watch, seconds = self._watch, self._plan.seconds
        end = inf if seconds is None else max(seconds, watch.seconds + LATE_S)
        return lambda: watch.seconds >= end

    def _keep(self, run: Run, violation: Violation, conditions: str) -> None:
        """Keep the first counterexample of each rule, made small."""
        if violation.rule in self._counterexamples:
            return
        plan = self._plan
        small = Shrunk(run.schedule, violation)
        if plan.shrinks:
            small = shrink(self._make_world, run, self._monitors, is_over=self._time_to_shrink())
        world = self._make_world()
        replay_on(world, small.schedule)
        self._counterexamples[violation.rule] = Counterexample(
            **msgspec.structs.asdict(small),
            steps=steps_of(world),
            found=run.schedule,
            run=self.statistics.runs,
            scheduler=self._scheduler.name,
            seed=plan.seed,
            scenario=plan.scenario,
            conditions=conditions,
        )


def explore(
    make_world: MakeWorld[W], monitors: Sequence[Monitor[W]] = (), plan: Plan = DEFAULT_PLAN
) -> Explored:
    """Run a campaign in this process."""
    watch = Stopwatch()
    shard = Campaign(make_world, monitors, plan).run()
    return merge_shards([shard], plan, watch.seconds)


def merge_shards(shards: Sequence[ShardResult], plan: Plan, seconds: float) -> Explored:
    """Merge the results of all processes. Of each rule the smallest counterexample is kept."""
    statistics = Statistics()
    found: dict[str, Counterexample] = {}
    for shard in shards:
        statistics.merge(shard.statistics)
        for one in shard.counterexamples:
            known = found.get(one.violation.rule)
            if known is None or len(one.steps) < len(known.steps):
                found[one.violation.rule] = one
    goals = [goal for goal in shards[0].unmet_goals if all(goal in shard.unmet_goals for shard in shards)]
    return Explored(
        figures=Figures.of(statistics),
        counterexamples=tuple(found.values()),
        unmet_goals=() if found else tuple(goals),
        is_exhausted=any(shard.is_exhausted for shard in shards),
        scheduler=plan.scheduler if isinstance(plan.scheduler, str) else plan.scheduler.name,
        seed=plan.seed,
        scenario=plan.scenario,
        seconds=seconds,
        unstable=next((shard.unstable for shard in shards if shard.unstable), None),
    )
