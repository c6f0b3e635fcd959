"""Every prefix of a log resumes: what a crash at any event, with any tail lost, leaves goes on to a good end.

    for breach in check_resumes(world.scenario, world.log):
        print(breach)

Quadratic in the length of the log, since every prefix is a session of its own: for small ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolStarted
from callboard.replay.testing.rules.base import Breach
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld

RESUMES: Final = "Every prefix of a log resumes to an end at which no rule is broken."
KEPT: Final = "An outcome that was seen stays as it was seen."
ONCE: Final = "A write tool that had started is not started again."

Choose = Callable[[int], int]


def go_on(scenario: Scenario, events: Sequence[Event], *, at: int = 0) -> SessionWorld:
    """Return a session that continues from these events, all of its log; no move is made yet.
    at: the time of the new process, in milliseconds since 1970; by default that of the last event. The client
    asks nothing beyond the log. Raises Diverged if the deciders do not do what the log says.
    """
    world = SessionWorld(replace(scenario, asks=(), closes=False))
    world.now = max(at, events[-1].at if events else world.now)
    world.resume(events)
    world.look_ahead()
    return world


def check_resumes(
    scenario: Scenario, events: Sequence[Event], choose: Choose = lambda n: 0, *, start: int = 0
) -> list[Breach]:
    """Return the breaches after a crash at each event from `start` on. choose: the order of later moves."""
    found: list[Breach] = []
    for length in range(start, len(events) + 1):
        where = f"after a crash behind event {length}"
        world = go_on(scenario, events[:length]).run(choose)
        found += [Breach("resumes", RESUMES, length, f"{where}: {breach}") for breach in breaches_of(world)]
        seen = [event.body for event in events[:length] if isinstance(event.body, AskEnded)]
        if world.of(AskEnded)[: len(seen)] != seen:
            found.append(Breach("kept-outcome", KEPT, length, where))
        starts = [event.cause for event in world.events(ToolStarted)]
        if len(starts) != len(set(starts)):
            found.append(Breach("started-once", ONCE, length, where))
    return found
