"""One campaign against one core: each scenario gets a run in turn, until a rule breaks or all runs are made.

Rules
  - Each scenario has its own scheduler with its own memory, as in a campaign of `explore`: this measures the
    tool that users get. Runs go round the scenarios because some faults show only in some of them.
  - A run that does not come to rest within its bounds breaks a rule too.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from random import Random
from typing import Any, TypeAlias

from callboard.replay.testing.run import Bounds, Run, perform
from callboard.replay.testing.schedulers.portfolio import scheduler_named
from callboard.replay.testing.sessions.budget_world import BudgetScenario, BudgetWorlds, budget_monitors
from callboard.replay.testing.sessions.capacity_monitors import capacity_monitors
from callboard.replay.testing.sessions.capacity_world import CapacityWorlds, SharedScenario
from callboard.replay.testing.sessions.faults import NO_FAULTS
from callboard.replay.testing.sessions.fork_rules import fork_monitors
from callboard.replay.testing.sessions.fork_world import Fork, ForkWorlds
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import Worlds
from callboard.replay.testing.world import MakeWorld, Monitor, Move, Violation
from tests.mutants.downtime import Downtime
from tests.mutants.orchestrated import Orchestrated
from tests.mutants.parts import Part
from tests.mutants.rules import REPLAY_EVERY, rules

BOUNDS = Bounds(steps=200, steps_in_all=3_000)
REST = "A session comes to rest."
AT_A_TIME = 20
"""The runs that a part makes before the next one has its turn."""

AnyScenario: TypeAlias = Scenario | SharedScenario | Fork | Orchestrated | Downtime


class Lane:
    """One scenario with its scheduler."""

    def __init__(self, name: str, scenario: AnyScenario, scheduler: str, seed: str) -> None:
        self.name = name
        self._worlds, self._rules = hunted(scenario)
        self.scheduler = scheduler_named(scheduler, f"{seed}/{name}")
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


def hunted(scenario: AnyScenario) -> tuple[MakeWorld[Any], Sequence[Monitor[Any]]]:
    """Return the worlds of this scenario and the rules that they must keep."""
    if isinstance(scenario, BudgetScenario):
        return BudgetWorlds(scenario), budget_monitors(REPLAY_EVERY)
    if isinstance(scenario, SharedScenario):
        return CapacityWorlds(scenario), capacity_monitors(REPLAY_EVERY)
    if isinstance(scenario, Fork):
        return ForkWorlds(scenario), fork_monitors(REPLAY_EVERY)
    if isinstance(scenario, Orchestrated | Downtime):
        return Worlds(scenario.scenario), [*rules(), scenario.rule]
    return Worlds(scenario), rules()


def sessions(part: Part) -> Mapping[str, AnyScenario]:
    """Return the sessions of a part, by name."""
    module, _, name = part.sessions.partition(":")
    found: Mapping[str, AnyScenario] = getattr(import_module(module), name)
    return found


def explore(parts: Sequence[Part], scheduler: str, seed: str, runs: int) -> dict[str, object]:
    """Make runs until a rule breaks or `runs` are made. Return the broken rule, and how it was found.

    Several parts take turns, so that the one with most sessions does not take most runs.
    """
    lines = [
        deque(Lane(name, one, scheduler, seed) for name, one in sessions(part).items()) for part in parts
    ]
    made = 0
    while any(lines):
        for line in lines:
            for _ in range(min(AT_A_TIME, len(line))):
                lane = line.popleft()
                run = lane.run()
                if run is None:
                    continue
                line.append(lane)
                made += 1
                if run.violation is not None:
                    return _found(lane, run, run.violation.rule, made)
                if made == runs:
                    return {"killed": False, "runs": made}
    return {"killed": False, "runs": made}


def _found(lane: Lane, run: Run, rule: str, made: int) -> dict[str, object]:
    return {
        "killed": True,
        "runs": made,
        "rule": rule,
        "scenario": lane.name,
        "by": lane.scheduler.name,
        "steps": len(run.made),
        "schedule": run.schedule.text(lane.name),
    }


def fifo(part: Part) -> dict[str, object]:
    """Run every scenario once in FIFO order, without faults. Return the broken rule and the run."""
    scenarios = sessions(part)
    for runs, (name, scenario) in enumerate(scenarios.items(), 1):
        worlds, monitors = hunted(calm(scenario))
        run = perform(worlds(), monitors, lambda offered: offered[0], lambda offered: offered[0], BOUNDS)
        if run.violation is not None or not run.is_at_rest:
            rule = run.violation.rule if run.violation else REST
            return {"killed": True, "runs": runs, "rule": rule, "scenario": name}
    return {"killed": False, "runs": len(scenarios)}


def calm(scenario: AnyScenario) -> AnyScenario:
    """Return the same sessions without faults."""
    if isinstance(scenario, Scenario):
        return without_faults(scenario)
    if isinstance(scenario, Fork | Orchestrated | Downtime):
        return replace(scenario, scenario=without_faults(scenario.scenario))
    alone = {name: without_faults(one) for name, one in scenario.sessions.items()}
    return replace(scenario, sessions=alone, crashes=0, leaves=())


def without_faults(scenario: Scenario) -> Scenario:
    """Return the same scenario without faults."""
    return replace(scenario, faults=NO_FAULTS)
