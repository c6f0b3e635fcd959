"""The requests for turns: `TurnRequested` of all agents, `RunStep` of programs, `CallModel` of questions."""

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.step_messages import RunStep


def turn_of(step: RunStep) -> TurnRequested:
    """Return the request for a turn that a program's step is."""
    return TurnRequested(turn=step.turn, attempt=step.attempt, digest=step.digest, new=step.new)


def first_turn(call: CallModel) -> TurnRequested | None:
    """Return the request for a turn that a call is; None for one that a `TurnRequested` has asked for."""
    first = call.opening
    if first is None:
        return None
    return TurnRequested(turn=1, need=first.need, digest=first.digest, new=(call.request,))


def wish_in(body: object) -> TurnRequested | None:
    """Return the request for a turn that a message is; None for any other message."""
    if type(body) is TurnRequested:
        return body
    if type(body) is CallModel:
        return first_turn(body)
    return turn_of(body) if type(body) is RunStep else None
