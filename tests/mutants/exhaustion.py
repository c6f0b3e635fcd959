"""Every order of a small session with background tasks, and a crash after every event of every order.

    python -m tests.mutants.exhaustion [--runs 2000] [NAME ...]

Two orders share most of their logs, so the crashes are counted by different beginnings of a log: each is
continued once, first come, first served. Prints a line for each session.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.prompts import TASK_CANCEL, TASK_WAIT
from callboard.replay.testing.explore import Plan, explore
from callboard.replay.testing.findings import lines
from callboard.replay.testing.monitors import AtRest
from callboard.replay.testing.sessions.monitors import breaches_of, session_monitors
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_replies import calls
from callboard.replay.testing.sessions.world import SessionWorld, Worlds
from callboard.replay.testing.world import Monitor
from callboard.replay.verify import Verifier
from tests.mutants import scenarios_background as background
from tests.mutants.scenarios_background import LAST, SO_FAR, behind, heard, lead
from tests.mutants.scripts import LOOK, race


def race_with_a_cancel() -> Scenario:
    """Build a race in the background that its host cancels while it may end."""
    name, arguments = race("kid", "kid")
    assert isinstance(arguments, dict)
    started = calls((name, {**arguments, "background": True}))
    return lead(started, calls((TASK_CANCEL, {"task": "host.1"})), LAST, is_uncontended=False)


def words_for_two() -> Scenario:
    """Build words for a host and for its task, each at any time."""
    return lead(
        calls(behind()),
        SO_FAR,
        LAST,
        LAST,
        tells=[("hurry", "host"), ("stop", "host.1")],
        is_uncontended=False,
    )


def small_budget_of_one() -> Scenario:
    """Build a task that uses all that its host leaves it."""
    made = background.small_budget()
    return lead(
        calls(behind()),
        SO_FAR,
        LAST,
        kid=[calls(LOOK)] * 3,
        limits=made.limits,
        percent=100,
        is_uncontended=False,
    )


def wait_for_one() -> Scenario:
    """Build a host that waits for its only task by a call."""
    return lead(calls(behind(), (TASK_WAIT, {"any": True})), heard)


SMALL: Final[dict[str, Callable[[], Scenario]]] = {
    "two children": background.two_tasks,
    "nested": background.nested_tasks,
    "race with cancel": race_with_a_cancel,
    "wait for the first": background.first_of_two,
    "wait for one": wait_for_one,
    "words at the cap": background.words_at_the_cap,
    "one slot": background.one_slot,
    "small budget": small_budget_of_one,
}
LONG: Final[dict[str, Callable[[], Scenario]]] = {
    "words for two": words_for_two,
    "race with two cancels": background.cancelled_race,
    "words for three": background.words_anywhere,
    "words in a wait": background.words_in_a_wait,
    "small budget of two": background.small_budget,
}
"""They have more orders than `RUNS`: no rule is broken in the first ones."""


RUNS: Final = 2_000
"""Twice as many orders as the largest of `SMALL` has."""


class Exhausted(NamedTuple):
    """The orders and the crashes of a session. faults: the rules that were broken, in words."""

    orders: int
    crashes: int
    is_exhausted: bool
    faults: Sequence[str]


def exhaust(scenario: Scenario, runs: int) -> Exhausted:
    """Make every order of a session, at most so many, and a crash after every event of each."""
    seen: set[bytes] = set()
    faults: list[str] = []

    def crashes(world: SessionWorld) -> bool:
        for length, key in enumerate(_keys(world.log), 1):
            if key not in seen:
                seen.add(key)
                faults.extend(_resumed(scenario, world.log[:length]))
        return not faults

    monitors: list[Monitor[SessionWorld]] = [
        *session_monitors(10),
        AtRest("A crash breaks no rule.", crashes),
    ]
    found = explore(Worlds(scenario), monitors, Plan("exhaustive", runs=runs))
    told = [] if found.is_ok else [*faults, *lines(found)]
    return Exhausted(found.figures.runs, len(seen), found.is_exhausted, told)


def _keys(log: Sequence[Event]) -> Iterator[bytes]:
    """Yield a key of each beginning of a log."""
    key = b""
    for event in log:
        told = f"{event.at} {event.sender} {event.recipient} {event.cause} ".encode()
        key = blake2b(key + told + encode(event.body), digest_size=16).digest()
        yield key


def _resumed(scenario: Scenario, log: Sequence[Event]) -> list[str]:
    """Continue a session after a crash, and return the rules that it breaks."""
    world = SessionWorld(scenario)
    world.resume(log)
    told = [f"{one}, after event {len(log)}" for one in breaches_of(world.run())]
    found = Verifier(world.log).run()
    return told if found is None else [*told, f"{found}, after event {len(log)}"]


def main() -> None:
    """Exhaust the named sessions, or all, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=RUNS)
    args = parser.parse_args()
    everything = {**SMALL, **LONG}
    for name in args.names or everything:
        found = exhaust(everything[name](), args.runs)
        end = "exhausted" if found.is_exhausted else "not exhausted"
        print(f"{name}: {found.orders} orders, {found.crashes} crashes, {end}", *found.faults, flush=True)
        if found.faults:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
