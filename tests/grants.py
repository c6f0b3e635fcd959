"""The request that a grant of the supervisor is for."""

from collections.abc import Sequence

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.wishes import first_turn


def granted_by(events: Sequence[Event], grant: CallModel) -> TurnRequested:
    """Return the request that a `CallModel` grants. events: all of the session's from seq 1 to the grant."""
    if (first := first_turn(grant)) is not None:
        return first
    asked = events[grant.request - 1].body
    assert isinstance(asked, TurnRequested)
    return asked
