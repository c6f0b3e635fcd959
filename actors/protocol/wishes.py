"""The requests for turns: `TurnRequested` of all agents, and `RunStep` of programs."""

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.step_messages import RunStep


def turn_of(step: RunStep) -> TurnRequested:
    """Return the request for a turn that a program's step is."""
    return TurnRequested(turn=step.turn, attempt=step.attempt, digest=step.digest, new=step.new)


def wish_in(body: object) -> TurnRequested | None:
    """Return the request for a turn that a message is; None for any other message."""
    if isinstance(body, RunStep):
        return turn_of(body)
    return body if isinstance(body, TurnRequested) else None
