"""The starts of tools in a fork: which calls wait for a recorded answer, and which have run. No I/O.

The events of a fork repeat the recording, so a `write` tool is announced before its recorded answer waits for
its turn. That `ToolStarted` names the answer. If the answer does not fit in its turn and the tool runs, a
second one says so. It is durable before the tool acts, as the start of any `write` tool:

    CallTool  ToolStarted(reused=7)                  ToolReturned(reused=7)   the tool did not run
    CallTool  ToolStarted(reused=7)  ToolStarted()   ToolReturned()           the answer did not fit: it ran

An `idempotent` tool is announced in the same way if its recorded answer did not fit, or a person let it run.
So a process that continues the fork knows which calls may have had their effect. It gives those no recorded
answer, which would deny the effect, asks no person about them, and runs none of them again that is a `write`.
"""

from collections.abc import Container, Sequence
from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.port_messages import CallTool, ToolReturned, ToolStarted
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.port_actions import Start
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import Reusable

_UNRUN: Final = frozenset({"cancelled", "needs_effect"})


def held_start(start: Start, found: Reusable) -> Start:
    """Return the start of a request that waits for its recorded answer: an announcement names the answer."""
    if start.announcement is None:
        return start
    body = replace(start.announcement.body, reused=found.seq)
    return replace(start, announcement=Post(start.announcement.recipient, body))


def start_of_missed(request: Event, gate: PortGate) -> Start:
    """Return the start of a request whose recorded answer does not fit, or about which a person decides."""
    start, call = gate.start_of(request), request.body
    if start.announcement is not None or not isinstance(call, CallTool) or call.effect == "read":
        return start
    # Else a later process could give an `idempotent` call, which may have acted, its recorded answer.
    return replace(start, announcement=Post(request.sender, ToolStarted(call.turn, call.call)))


def begun_in(events: Sequence[Event]) -> frozenset[int]:
    """Return the calls whose tools have begun to run, by the events of a fork itself."""
    return frozenset(one.cause for one in events if isinstance(one.body, ToolStarted) and not one.body.reused)


def has_effect(events: Sequence[Event], effects: Effects, recorded: Container[int]) -> bool:
    """Return True if a tool with an effect may have run, by the events of a fork itself.

    recorded: the requests that have a recorded answer.
    """
    begun, unannounced = set[int](), set[int]()
    for event in events:
        match event.body:
            case CallTool(effect="idempotent") if effects != "recorded":
                unannounced.add(event.seq)
            case ToolStarted(reused=0):
                begun.add(event.cause)
            case ToolReturned(reused=reused, status=status):
                may_have_run = event.cause in begun or event.cause in unannounced
                # An error may be the word of a person who said no: then the `read` tools run again.
                if may_have_run and not reused and status not in _UNRUN:
                    return True
                begun.discard(event.cause)
                unannounced.discard(event.cause)
            case _:
                pass
    return bool(begun) or any(call not in recorded for call in unannounced)
