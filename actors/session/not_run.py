"""The answer to a call of a tool with an effect that a fork does not run."""

from typing import Final

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.session.recorded_answers import Reusable

_WITHOUT: Final = "Not run: {tool} has an effect, and this fork has no recorded result for the call."
_UNFIT: Final = "Not run: {tool} has an effect, and its recorded result does not fit: {why}."


def not_run(request: Event, same: Reusable | None = None, unfit: str = "") -> Post:
    """Return the answer to a call that this fork does not run.

    same: a recorded result of the same call in another turn. unfit: why its own result is not given.
    """
    call = request.body
    assert isinstance(call, CallTool)
    output = text_json((_UNFIT if unfit else _WITHOUT).format(tool=call.tool, why=unfit))
    seq = same.seq if same else 0
    returned = ToolReturned(turn=call.turn, call=call.call, status="needs_effect", output=output, same=seq)
    return Post(request.sender, returned)
