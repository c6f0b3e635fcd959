"""The end of a process, and another one that goes on: crash, lost tail, resume; a store that takes no more.

What must be durable at any moment is known: up to where tools with effects were told to start, and what the
client was shown. A crash keeps at least that. How much of the rest it loses is chosen after it: "lose one"
and "lose half" as often as one likes, also in the middle of a decision. Then "resume".

A `write` or `idempotent` tool that was under way has had its effect, so far as its start survives: that is
the worst that can have happened. A process that has lost its session to another one can append no more; the
rule is the store's own (`runtime.log.protocol.refusal`).
"""

from typing import Final

from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.messages import CallTool, SessionClosed
from callboard.replay.testing.sessions.scripted_session import ScriptedSession
from callboard.replay.testing.world import Move
from callboard.runtime.log.protocol import Append, refusal

RESUME: Final = "resume"
SESSION: Final = "simulated"
"""The id of every simulated session."""


def crash(world: ScriptedSession) -> None:
    """End the process at this moment."""
    world.down = tuple(
        request
        for request in world.requests.values()
        if isinstance(request.event.body, CallTool) and request.event.body.effect != "read"
    )
    for memory in (world.offers, world.later, world.requests):
        memory.clear()
    world.log = list(world.log)  # the trace of moves before the crash keeps the old one
    world.offer(RESUME, "process", "client", "a new process goes on")


def losses(world: ScriptedSession) -> list[Move]:
    """Return the moves that lose more of the end of the log."""
    if len(world.log) <= world.durable:
        return []
    strands = ("fault lose one", "fault lose half")
    return [world.names.other(strand, "process", "fault", strand.replace(" ", ": ", 1)) for strand in strands]


def lose(world: ScriptedSession, how_much: str) -> None:
    """Drop the last event, or half of the events that need not be durable."""
    tail = len(world.log) - world.durable
    del world.log[len(world.log) - (1 if how_much == "one" else (tail + 1) // 2) :]


def resume(world: ScriptedSession) -> None:
    """Start a new process that continues from the log."""
    running, world.down = world.down or (), None
    for request in running:
        if request.waits_for <= len(world.log) and isinstance(request.event.body, CallTool):
            world.act(request.event, request.event.body)
    world.offers.clear()
    world.durable = len(world.log)
    if any(isinstance(event.body, SessionClosed) for event in world.log):
        world.is_closed = True
    else:
        world.resume(world.log)


def refuse(world: ScriptedSession) -> None:
    """Make the store refuse to write: events that it does not hold are lost, and the session fail-stops."""
    world.log = world.log[: world.durable]
    world.fail(StoreFailed("a fault: the store refuses to write"))


def fence(world: ScriptedSession) -> None:
    """Let another process take over the session, so that this one can append no more.
    Raises AssertionError if the store's own rule would let the loser append.
    """
    staged = Append(SESSION, world.durable, 1, world.log[world.durable :])
    assert refusal(staged, 2, world.durable) is not None, "a fenced writer may append"
    crash(world)
    world.log = world.log[: world.durable]
    resume(world)
