"""One run: ask for moves, let a scheduler pick, make the move, look at the rules; until it is at rest.

Rules
  - A run has two parts. The first belongs to the scheduler, and ends at rest or after N steps. Then the world
    heals: moves but no faults are chosen, fairly, until rest or 10 N steps (both figures from Coyote).
  - A run that a bound ends is unfinished: only monitors that judge beginnings see it (`JudgesUnfinished`).
  - An exception of a decider or of the world is a violation of its own at that step.
  - A campaign ends a run at its first violation. A replay makes all moves and notes every broken rule.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Generic, Protocol, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.testing.schedule import STEPS_MAX, Schedule, ScheduleMisfit
from callboard.replay.testing.world import (
    Heals,
    JudgesUnfinished,
    MakeWorld,
    Monitor,
    Move,
    Violation,
    W,
    World,
    place_of,
    watches,
)

FAIR_FACTOR = 10

Choose: TypeAlias = Callable[[Sequence[Move]], Move | None]


class Scheduler(Protocol):
    """Picks the moves of all runs of a campaign, one run after the other, and learns from them.

    It sees moves and the parts of the world that they touched: neither states nor messages. Its chance comes
    from a `random.Random`; two schedulers with equal seeds make equal runs.
    """

    @property
    def name(self) -> str:
        """Return the name by which it is requested and reported."""

    def begin(self, world: World) -> bool:
        """Start a run of `world`. Return False if everything has been tried."""

    def choose(self, offered: Sequence[Move]) -> Move | None:
        """Choose one of `offered`, which is not empty. None: an earlier run has tried all that follows."""

    def finish(self, world: World) -> None:
        """Learn from the run, as far as this scheduler does; others may have chosen its last moves."""
        return


class Bounds(msgspec.Struct, frozen=True):
    """The bounds of a run. steps: N, of its first part. steps_in_all: of both. Raises MisuseError below 1."""

    steps: int = STEPS_MAX
    steps_in_all: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise MisuseError(f"a run has at least one step, not {self.steps}")
        if not self.steps_in_all:
            msgspec.structs.force_setattr(self, "steps_in_all", FAIR_FACTOR * self.steps)


DEFAULT = Bounds()


class Run(msgspec.Struct):
    """The result of one run."""

    made: list[Move]
    steps: int = STEPS_MAX  # N of its bounds
    violation: Violation | None = None  # the first
    violations: tuple[Violation, ...] = ()  # of a replay: of every rule the first, in the order of steps
    healed_at: int | None = None  # the steps before its faults were over, if they were
    is_at_rest: bool = False  # nothing more was going to happen
    is_cut: bool = False  # the scheduler had seen the rest before
    is_broken_unfinished: bool = False  # the rule was looked at without the end of the run

    @property
    def is_unfinished(self) -> bool:
        """Return whether a bound, and nothing else, ended the run."""
        return self.violation is None and not self.is_at_rest and not self.is_cut

    @property
    def schedule(self) -> Schedule:
        """Return the schedule of this run."""
        return Schedule(tuple(move.strand for move in self.made), self.healed_at, self.steps)


def not_faults(moves: Sequence[Move]) -> Sequence[Move]:
    """Return the moves that are not faults."""
    return [move for move in moves if move.kind != "fault"]


def perform(
    world: W,
    monitors: Sequence[Monitor[W]],
    first: Choose,
    second: Choose,
    bounds: Bounds = DEFAULT,
    heal_at: int | None = None,
    goes_on: bool = False,
) -> Run:
    """Make one run. first and second: choose the moves of its two parts. heal_at: instead of `bounds.steps`.

    goes_on: where `first` has no more to say, the second part begins; else the run is cut.
    """
    run = Run([], steps=bounds.steps)
    for monitor in monitors:
        monitor.begin(bounds.steps)
    watchers = [monitor for monitor in monitors if watches(monitor)]
    heals = hasattr(world, "heal")  # a tenth of a microsecond; isinstance(world, Heals) takes five
    try:
        _look(world, watchers, 0, run)
        if run.violation is None:
            _first(world, monitors, watchers, first, bounds.steps if heal_at is None else heal_at, run, heals)
        if run.is_cut and goes_on:
            run.is_cut = run.is_at_rest = False
        if run.violation is None and not run.is_cut and (heals or not run.is_at_rest):
            run.healed_at, run.is_at_rest = len(run.made), False
            if isinstance(world, Heals):
                world.heal()
            _second(world, watchers, second, bounds.steps_in_all, run)
        if run.violation is None:
            (_look_at_rest if run.is_at_rest else _look_unfinished)(world, monitors, run)
    except MisuseError:  # a mistake of the caller breaks no rule of the session
        raise
    except Exception as error:
        run.violation = _raised(error, len(run.made))
    return run


def _raised(error: Exception, at: int) -> Violation:
    """Return the violation for an exception of a decider, a world or a rule."""
    says_all = isinstance(error, AssertionError) and str(error)
    rule = str(error) if says_all else f"Nothing raises {type(error).__name__}: {error}"
    return Violation(rule, at, place_of(error))


def _first(
    world: W,
    monitors: Sequence[Monitor[W]],
    watchers: Sequence[Monitor[W]],
    choose: Choose,
    steps: int,
    run: Run,
    heals: bool,
) -> None:
    """Make moves until one of these: at rest, cut, a violation, `steps` moves. watchers: those that watch."""
    # The hottest loop of a campaign: look-ups and conditions stay in front of it.
    moves, make, made = world.moves, world.make, run.made
    looks = [monitor.after for monitor in watchers]
    judges = bool(monitors) and not heals
    for at in range(1, steps + 1):
        offered = moves()
        if not offered:
            run.is_at_rest = True
            return
        # Faults are never owed: a world that offers only faults is at rest, and must keep the rules of rest.
        if judges and offered[0].kind == "fault" and not not_faults(offered):
            _look_at_rest(world, monitors, run)
            if run.violation is not None:
                run.is_at_rest = True
                return
        move = choose(offered)
        if move is None:
            run.is_cut, run.is_at_rest = True, not not_faults(offered)
            return
        made.append(move)
        make(move)
        for after in looks:
            if (violation := after(world, at, 0)) is not None:
                run.violation = violation
                return
    run.is_at_rest = not not_faults(moves())


def _second(world: W, watchers: Sequence[Monitor[W]], choose: Choose, steps: int, run: Run) -> None:
    """Make the part without faults, up to `steps` moves in both parts together."""
    made, healed_at = run.made, len(run.made)
    for at in range(healed_at + 1, steps + 1):
        offered = not_faults(world.moves())
        if not offered:
            break
        move = choose(offered)
        if move is None:
            run.is_cut = True
            return
        made.append(move)
        world.make(move)
        _look(world, watchers, at - healed_at, run)
        if run.violation is not None:
            return
    run.is_at_rest = not not_faults(world.moves())


# Loops, not generators: the first two are called for every run, and `_look` for every fair step.


def _look(world: W, watchers: Sequence[Monitor[W]], fair_steps: int, run: Run) -> None:
    for monitor in watchers:
        run.violation = monitor.after(world, len(run.made), fair_steps)
        if run.violation is not None:
            return


def _look_at_rest(world: W, monitors: Sequence[Monitor[W]], run: Run) -> None:
    for monitor in monitors:
        run.violation = monitor.at_rest(world, len(run.made))
        if run.violation is not None:
            return


def _look_unfinished(world: W, monitors: Sequence[Monitor[W]], run: Run) -> None:
    judges = (monitor for monitor in monitors if isinstance(monitor, JudgesUnfinished))
    found = (monitor.unfinished(world, len(run.made)) for monitor in judges)
    run.violation = next(filter(None, found), None)
    run.is_broken_unfinished = run.violation is not None


# --- replay: a schedule chooses step by step, and is refused where it does not fit ----------


class Noting(Generic[W]):
    """A monitor that notes the first violation of another one and lets the run go on."""

    def __init__(self, monitor: Monitor[W]) -> None:
        self._monitor = monitor
        self.violation: Violation | None = None

    def begin(self, steps: int) -> None:
        """Begin a run."""
        self._monitor.begin(steps)

    def after(self, world: W, at: int, fair_steps: int) -> None:
        """Look at a step."""
        self._note(at, lambda: self._monitor.after(world, at, fair_steps))

    def at_rest(self, world: W, at: int) -> None:
        """Look at the end."""
        self._note(at, lambda: self._monitor.at_rest(world, at))

    def unfinished(self, world: W, at: int) -> None:
        """Look at a run that is not at rest, if the monitor can judge it."""
        monitor = self._monitor
        if isinstance(monitor, JudgesUnfinished):
            self._note(at, lambda: monitor.unfinished(world, at))

    def _note(self, at: int, look: Callable[[], Violation | None]) -> None:
        if self.violation is not None:
            return
        try:
            self.violation = look()
        except MisuseError:
            raise
        except Exception as error:
            self.violation = _raised(error, at)


def choice_of(schedule: Schedule) -> Choose:
    """Return a function that chooses the schedule's moves, then None; it raises ScheduleMisfit."""
    wanted = enumerate(schedule.strands, 1)

    def choose(offered: Sequence[Move]) -> Move | None:
        at, strand = next(wanted, (0, ""))
        if not at:
            return None
        for move in offered:
            if move.strand == strand:
                return move
        raise ScheduleMisfit(at, strand, offered)

    return choose


def replay(make_world: MakeWorld[W], schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Make the run that `schedule` is. Raises ScheduleMisfit if the code does not offer it any more."""
    return replay_on(make_world(), schedule, monitors)


def replay_on(world: W, schedule: Schedule, monitors: Sequence[Monitor[W]] = ()) -> Run:
    """Replay on a world at its start that the caller keeps; no monitor ends the run."""
    choose = choice_of(schedule)
    length = len(schedule.strands)
    heal_at = length + 1 if schedule.healed_at is None else schedule.healed_at
    noting = [Noting(monitor) for monitor in monitors]
    run = perform(world, noting, choose, choose, Bounds(schedule.steps, length + 1), heal_at)
    if not run.violation and len(run.made) < length:
        raise ScheduleMisfit(len(run.made) + 1, schedule.strands[len(run.made)], ())
    noted = [*(one.violation for one in noting), run.violation]
    run.violations = tuple(sorted(filter(None, noted), key=attrgetter("at")))
    run.violation = next(iter(run.violations), None)
    return run
