"""One campaign against one core: each scenario gets a run in turn, until a rule breaks or all runs are made.

Rules
  - Each scenario has its own scheduler with its own memory, as in a campaign of `explore`: this measures the
    tool that users get. Runs go round the scenarios because some faults show only in some of them.
  - A run that does not come to rest within its bounds breaks a rule too.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from callboard.replay.testing.run import Bounds, Run, perform
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.sessions.capacity_monitors import capacity_monitors
from callboard.replay.testing.sessions.capacity_world import CapacityWorlds
from callboard.replay.testing.sessions.faults import NO_FAULTS
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld, Worlds
from callboard.replay.testing.world import MakeWorld, Monitor, Move, Violation
from tests.mutants.rules import REPLAY_EVERY, rules
from tests.mutants.scenarios import SCENARIOS
from tests.mutants.scenarios_background import BACKGROUND
from tests.mutants.scenarios_capacity import SHARED
from tests.mutants.scenarios_programs import PROGRAMS

BOUNDS = Bounds(steps=200, steps_in_all=3_000)
REST = "A session comes to rest."


class Lane:
    """One scenario with its scheduler."""

    def __init__(
        self,
        name: str,
        worlds: MakeWorld[Any],
        monitors: Sequence[Monitor[Any]],
        scheduler: str,
        seed: str,
    ) -> None:
        self.name = name
        self._worlds = worlds
        self.scheduler = scheduler_named(scheduler, f"{seed}/{name}")
        self._rules = monitors
        self._fair = Random(f"{seed}/{name}/fair").random

    def run(self) -> Run | None:
        """Make one run; None if no order is left."""
        world, scheduler = self._worlds(), self.scheduler
        if not scheduler.begin(world):
            return None
        run = perform(world, self._rules, scheduler.choose, self._any, BOUNDS)
        scheduler.finish(world)
        if run.violation is None and not run.is_at_rest and not run.is_cut:
            run.violation = Violation(REST, len(run.made))
        return run

    def _any(self, offered: Sequence[Move]) -> Move:
        return offered[int(self._fair() * len(offered))]


def explore(scheduler: str, seed: str, runs: int) -> dict[str, object]:
    """Make runs until a rule breaks or `runs` are made. Return the broken rule, and how it was found."""
    return _hunt([Lane(name, Worlds(one), rules(), scheduler, seed) for name, one in SCENARIOS.items()], runs)


def explore_shared(scheduler: str, seed: str, runs: int) -> dict[str, object]:
    """Do the same with sessions that share the capacity of a runtime."""
    lanes = [
        Lane(name, CapacityWorlds(one), capacity_monitors(REPLAY_EVERY), scheduler, seed)
        for name, one in SHARED.items()
    ]
    return _hunt(lanes, runs)


def explore_programs(scheduler: str, seed: str, runs: int) -> dict[str, object]:
    """Do the same with sessions of programs."""
    lanes = [Lane(name, Worlds(one), rules(), scheduler, seed) for name, one in PROGRAMS.items()]
    return _hunt(lanes, runs)


def explore_background(scheduler: str, seed: str, runs: int) -> dict[str, object]:
    """Do the same with sessions of background tasks and of words for agents."""
    lanes = [Lane(one.__name__, Worlds(one()), rules(), scheduler, seed) for one in BACKGROUND]
    return _hunt(lanes, runs)


def _hunt(lanes: list[Lane], runs: int) -> dict[str, object]:
    made = 0
    while lanes and made < runs:
        for lane in list(lanes):
            run = lane.run()
            if run is None:
                lanes.remove(lane)
                continue
            made += 1
            if run.violation is not None:
                return {
                    "killed": True,
                    "runs": made,
                    "rule": run.violation.rule,
                    "scenario": lane.name,
                    "by": lane.scheduler.name,
                    "steps": len(run.made),
                    "schedule": run.schedule.text(lane.name),
                }
            if made == runs:
                break
    return {"killed": False, "runs": made}


def fifo() -> dict[str, object]:
    """Run every scenario once in FIFO order, without faults. Return the broken rule and the run."""
    for runs, (name, scenario) in enumerate(SCENARIOS.items(), 1):
        world = SessionWorld(without_faults(scenario))
        run = perform(world, rules(), lambda offered: offered[0], lambda offered: offered[0], BOUNDS)
        if run.violation is not None or not run.is_at_rest:
            rule = run.violation.rule if run.violation else REST
            return {"killed": True, "runs": runs, "rule": rule, "scenario": name}
    return {"killed": False, "runs": len(SCENARIOS)}


def without_faults(scenario: Scenario) -> Scenario:
    """Return the same scenario without faults."""
    return replace(scenario, faults=NO_FAULTS)
