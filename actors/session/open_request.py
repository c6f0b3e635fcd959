"""The requests of a session that have no answer in the log yet."""

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.shared_state import NO_STATE, SharedState


class OpenRequest(msgspec.Struct, gc=False):
    """A request without an answer in the log.

    owner: the address of the agent it is for.
    wish: the request for the turn that a `CallModel` grants, or that a `RunStep` is.
    is_answered: True if its answer is taken, and has not passed the gate yet.
    is_repeated: True if an earlier process may have started it.
    is_unwanted: True if its agent was stopped, before it or after it. It stays True when the agent has
        drained, since an agent drains without the answer to a `RequestCapacity`.
    shared: of a tool call, the shared state as of its event.
    is_given_up: True if its agent gave it up by a `CancelCall`, or has forgotten it.
    """

    event: Event
    owner: str
    wish: TurnRequested | None = None
    is_answered: bool = False
    is_repeated: bool = False
    is_unwanted: bool = False
    shared: SharedState = NO_STATE
    is_given_up: bool = False


def may_have_acted(returned: ToolReturned, request: OpenRequest | None) -> bool:
    """Return True if a call that may go on has perhaps had an effect: then it is never `cancelled`."""
    if returned.status != "input_required":
        return returned.status == "interrupted"
    call = request.event.body if request is not None else None
    return isinstance(call, CallTool) and call.effect != "read"
