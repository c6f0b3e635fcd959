"""Measure the exploration of bare deciders: schedules and deliveries a second of processor time.

    python benchmarks/explore.py [--seconds 3] [--rounds 5] [--memory RUNS]

The program is a host that gives work to four children, which ask one tool four times each: 41 deliveries a
run, states and messages are structs. `floor` calls the same step functions with the same arguments and does
nothing else, so `x floor` says what exploring costs on top. `bare` makes runs; `campaign` also counts
partial orders, end states and coverage and looks at one rule. Rounds alternate; the best of each is shown,
since machines are noisy. --memory makes so many runs, and shows the peak memory after each tenth.
"""

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, ProgramWorld, Send
from callboard.replay.testing.run import perform
from callboard.replay.testing.schedulers.portfolio import PARTS, scheduler_named

KIDS = ("kid1", "kid2", "kid3", "kid4")
TURNS = 4


class State(msgspec.Struct, frozen=True, gc=False):
    """left: turns to do. seen: messages handled."""

    left: int = TURNS
    seen: int = 0


class Work(msgspec.Struct, frozen=True, gc=False):
    """Do this; so many turns are left."""

    turns: int


class Done(msgspec.Struct, frozen=True, gc=False):
    """It is done."""

    result: int


def host(state: State, sender: str, message: Work | Done) -> tuple[State, Posts]:
    """Give work to all children and count their answers."""
    if isinstance(message, Work):
        return state, [(kid, Work(TURNS)) for kid in KIDS]
    return State(state.left, state.seen + message.result), ()


def kid(state: State, sender: str, message: Work) -> tuple[State, Posts]:
    """Asks the tool once a turn, then reports."""
    if message.turns == 0:
        return State(0, state.seen + 1), [("host", Done(1))]
    return State(message.turns, state.seen + 1), [("tool", Work(message.turns - 1))]


def tool(state: State, sender: str, message: Work) -> tuple[State, Posts]:
    """Answers."""
    return State(state.left, state.seen + 1), [(sender, message)]


def program(inbox: bool = False) -> Program:
    """Make the program to explore."""
    actors: dict[str, Actor[Any, Any]] = {"host": Actor(State(), host), "tool": Actor(State(), tool)}
    kids = {name: Actor(State(), kid) for name in KIDS}
    starts = [Send("client", "host", Work(0))]
    return Program({**actors, **kids}, starts, clients=["client"], inbox="actor" if inbox else "channel")


def floor() -> Callable[[], int]:
    """Call the step functions alone, with the recorded calls of one run."""
    calls = []

    def noted(actor: Actor[Any, Any]) -> Actor[Any, Any]:
        def step(state: State, sender: str, message: Work) -> tuple[State, Posts]:
            calls.append((actor.step, state, sender, message))
            return actor.step(state, sender, message)

        return actor._replace(step=step)

    noting = Program(
        {name: noted(actor) for name, actor in program().actors.items()}, [Send("client", "host", Work(0))]
    )
    walk = scheduler_named("random")
    walk.begin(noting.world())
    perform(noting.world(), (), walk.choose, walk.choose)

    def run() -> int:
        for step, state, sender, message in calls:
            step(state, sender, message)
        return len(calls)

    return run


def bare(name: str, inbox: bool = False) -> Callable[[], int]:
    """Run one scheduler and nothing else."""
    make_world, scheduler = program(inbox).world, scheduler_named(name)

    def run() -> int:
        world = make_world()
        scheduler.begin(world)
        made = perform(world, (), scheduler.choose, scheduler.choose).made
        scheduler.finish(world)
        return len(made)

    return run


def few_seen(world: ProgramWorld) -> bool:
    """Check a rule that holds."""
    return bool(world.states["host"].seen <= len(KIDS))


def campaign(name: str) -> Callable[[], int]:
    """Run as a campaign does."""
    under_way = Campaign(program().world, [always("Nobody reports twice", few_seen)], Plan(scheduler=name))
    statistics = under_way.statistics

    def run() -> int:
        before = statistics.steps
        under_way.one()
        return statistics.steps - before

    return run


def rates(run: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Measure runs and deliveries a second."""
    runs = deliveries = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for _ in range(100):
            deliveries += run()
        runs += 100
    return runs / spent, deliveries / spent


def rows() -> Iterator[tuple[str, Callable[[], int]]]:
    """Yield each name with the function to measure."""
    yield "floor", floor()
    for name in (*PARTS, "portfolio"):
        yield f"bare {name}", bare(name)
    yield "bare random, one inbox an actor", bare("random", inbox=True)
    yield "campaign random", campaign("random")
    yield "campaign portfolio", campaign("portfolio")


def memory(runs: int) -> None:
    """Print the peak memory of a campaign after each tenth of its runs."""
    under_way = Campaign(program().world, (), Plan())
    for tenth in range(1, 11):
        while under_way.statistics.runs < runs * tenth // 10:
            under_way.one()
        peak, seen = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, under_way.statistics
        print(f"{seen.runs:>10,} runs  {peak:7.1f} MB at most  {len(seen.orders):,} orders")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=0)
    options = parser.parse_args()
    if options.memory:
        memory(options.memory)
        return
    measured = list(rows())
    best: dict[str, tuple[float, float]] = {}
    order = Random(0)
    for _ in range(options.rounds):
        for name, run in order.sample(measured, len(measured)):
            best[name] = max(best.get(name, (0.0, 0.0)), rates(run, options.seconds / options.rounds))
    lowest = best["floor"][0]
    print(f"{'':32} {'schedules/s':>12} {'deliveries/s':>13} {'x floor':>8}")
    for name, _ in measured:
        runs, deliveries = best[name]
        print(f"{name:32} {runs:12,.0f} {deliveries:13,.0f} {lowest / runs:8.1f}")


if __name__ == "__main__":
    main()
