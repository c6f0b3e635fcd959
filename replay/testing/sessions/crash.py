"""The end of a process, and another one that goes on: crash, lost tail, resume; a store that takes no more.

What must be durable at any moment is known, what else is, is chance: up to where tools with effects were told
to start, and what the client was shown. A crash keeps at least that. How much of the rest it loses is chosen
after it: "lose one" and "lose half" as often as one likes, also in the middle of a decision. Then "resume".

A `write` or `idempotent` tool that was under way has had its effect, so far as its start survives: that is
the worst that can have happened. A process that has lost its session to another one can append no more; the
rule is the store's own (`runtime.log.refusals`).
"""

from typing import Final

from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.messages import RULES, CallTool, Resumed, SessionClosed
from callboard.actors.session.recovery import recover
from callboard.replay.testing.sessions.acting import Acting, Down
from callboard.replay.testing.world import Move
from callboard.runtime.log.protocol import Append, refusal

RESUME: Final = "resume"
SESSION: Final = "simulated"
"""The id of every simulated session."""


def crash(world: Acting) -> None:
    """End the process at this moment."""
    running = tuple(
        (request.event, world.start_of(request.event))
        for request in world.requests.values()
        if isinstance(request.event.body, CallTool) and request.event.body.effect != "read"
    )
    world.down = Down(running)
    for memory in (world.offers, world.later, world.requests):
        memory.clear()
    world.log = list(world.log)
    world.offers[RESUME] = world.names.other(RESUME, "process", "client", "a new process goes on")


def losses(world: Acting) -> list[Move]:
    """Return the moves that lose more of the end of the log."""
    if len(world.log) <= world.durable:
        return []
    strands = ("fault lose one", "fault lose half")
    return [world.names.other(strand, "process", "fault", strand.replace(" ", ": ", 1)) for strand in strands]


def lose(world: Acting, how_much: str) -> None:
    """Drop the last event, or half of the events that need not be durable."""
    tail = len(world.log) - world.durable
    del world.log[len(world.log) - (1 if how_much == "one" else (tail + 1) // 2) :]


def resume(world: Acting) -> None:
    """Start a new process that continues from the log."""
    assert world.down is not None
    running, world.down = world.down.running, None
    for request, start in running:
        if start <= len(world.log):
            assert isinstance(request.body, CallTool)
            world.act(request, request.body)
    world.offers.clear()
    world.durable = len(world.log)
    if any(isinstance(event.body, SessionClosed) for event in world.log):
        world.is_closed = True
        return
    first = Resumed(RULES) if world.log else world.scenario.first
    recovered = recover(world.log, first, world.now)
    world.restore(world.log, recovered)
    world.remember()


def refuse(world: Acting) -> None:
    """Make the store refuse to write: events that it does not hold are lost, and the session fail-stops."""
    world.log = world.log[: world.durable]
    world.fail(StoreFailed("a fault: the store refuses to write"))


def fence(world: Acting) -> None:
    """Let another process take over the session, so that this one can append no more.
    Raises AssertionError if the store's own rule would let the loser append.
    """
    staged = Append(SESSION, world.durable, 1, world.log[world.durable :])
    assert refusal(staged, 2, world.durable) is not None, "a fenced writer may append"
    crash(world)
    world.log = world.log[: world.durable]
    resume(world)
