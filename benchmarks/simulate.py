"""Measure the simulation of whole sessions: full supervisor and agents, on one core.

    python benchmarks/simulate.py [--runs 1500] [--rounds 5] [--memory RUNS]

A host asks two agents at once and answers when both have: 25 events. `steps` hands the same events to the
same step function and does nothing else, so `x steps` says what simulating costs on top. `world` plays
sessions in random orders; `campaign` is the explorer with its default portfolio; `rules` the same with
every rule of sessions; `faults` with all faults too. Rounds alternate, and the best of each is shown, since
machines are noisy. --memory makes so many runs of `faults`, and shows the peak memory after each tenth.
"""

import argparse
import resource
import time
from collections.abc import Callable

from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.step import ActorState, initial, step
from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.sessions.faults import NO_FAULTS, faults
from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, Worlds, in_random_order
from callboard.replay.testing.statistics import Statistics

BOTH = calls(task("left"), task("right"))


def policy(request: ModelRequest) -> Reply:
    """Let the host ask both; they answer."""
    return BOTH if (request.profile, request.turn) == ("host", 1) else Reply("done")


def scenario(*, is_faulty: bool = False) -> Scenario:
    """Describe three agents."""
    who = (profile("host", ["left", "right"]), profile("left"), profile("right"))
    return Scenario(who, policy, [ask()], faults=faults() if is_faulty else NO_FAULTS)


def steps(runs: int) -> None:
    """Call the step function alone, over a recorded session."""
    log = [event for event in SessionWorld(scenario()).run().log if is_decider(event.recipient)]
    for _ in range(runs):
        states: dict[str, ActorState] = {}
        for event in log:
            before = states.get(event.recipient) or initial(event.recipient)
            states[event.recipient], _ = step(before, event)


def world(runs: int) -> None:
    """Run sessions in random orders, without the explorer."""
    made, choose = Worlds(scenario()), in_random_order(1)
    for _ in range(runs):
        made().run(choose)


def campaign(runs: int) -> None:
    """Explore without rules."""
    Campaign(Worlds(scenario()), [], Plan(runs=runs)).run()


def rules(runs: int) -> None:
    """Explore with every rule of sessions."""
    Campaign(Worlds(scenario()), session_monitors(), Plan(runs=runs)).run()


def faulty(runs: int) -> None:
    """Explore with every rule and all faults."""
    Campaign(Worlds(scenario(is_faulty=True)), session_monitors(), Plan(runs=runs)).run()


WORK: dict[str, Callable[[int], None]] = {
    "steps": steps,
    "world": world,
    "campaign": campaign,
    "rules": rules,
    "faults": faulty,
}


def measure(runs: int, rounds: int) -> dict[str, float]:
    """Return sessions a second, the best of the rounds."""
    best = dict.fromkeys(WORK, 0.0)
    for _ in range(rounds):
        for name, work in WORK.items():
            start = time.process_time()
            work(runs)
            best[name] = max(best[name], runs / (time.process_time() - start))
    return best


def memory(runs: int) -> None:
    """Print the peak memory after each tenth of one long campaign."""
    made = Campaign(Worlds(scenario(is_faulty=True)), session_monitors(), Plan(runs=runs))
    tenth = max(1, runs // 10)

    def show(statistics: Statistics) -> bool:
        if statistics.runs % tenth == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024
            print(f"{statistics.runs:>9,} runs  {peak} MiB at most", flush=True)
        return True

    made.run(show)
    show(made.statistics)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=int, default=0)
    options = parser.parse_args()
    if options.memory:
        memory(options.memory)
        return
    found = measure(options.runs, options.rounds)
    for name, rate in found.items():
        print(f"{name:<10} {rate:>8,.0f} sessions/s   {found['steps'] / rate:.2f} x steps")


if __name__ == "__main__":
    main()
