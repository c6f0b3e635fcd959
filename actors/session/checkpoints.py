"""Checkpoints: named places of a log, given by tools, from which a session can be forked."""

from collections.abc import Iterable

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned


def checkpoints_of(events: Iterable[Event]) -> dict[str, int]:
    """Return the seq of each checkpoint by its name, the last one of each name."""
    found: dict[str, int] = {}
    for event in events:
        if isinstance(event.body, ToolReturned) and event.body.status == "ok":
            found.update(dict.fromkeys(event.body.checkpoints, event.seq))
    return found


def checkpoint_named(session_id: str, events: Iterable[Event], name: str) -> int:
    """Return the seq of a checkpoint. Raises UnknownName, which names those that there are."""
    found = checkpoints_of(events)
    if name not in found:
        known = ", ".join(sorted(found)) or "none; a tool makes one by ctx.checkpoint(name)"
        raise UnknownName(f"session {session_id} has no checkpoint {name!r:.80}; there are: {known}")
    return found[name]
