"""Logs that were tampered with, so that a rule about them can be seen to fail."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, TurnRequested

Log = list[Event]
Which = Callable[[Event], bool]


def of_kind(kind: type, recipient: str = "", sender: str = "") -> Which:
    """Return a test for events of this kind, to this recipient and from this sender if they are given."""

    def fits(event: Event) -> bool:
        is_from = not sender or event.sender == sender
        return isinstance(event.body, kind) and is_from and (not recipient or event.recipient == recipient)

    return fits


def find(log: Sequence[Event], which: Which, nth: int = 0) -> Event:
    """Return the nth event that fits."""
    return [event for event in log if which(event)][nth]


def edited(log: Sequence[Event], which: Which, **fields: Any) -> Log:
    """Change fields of the messages that fit."""
    return [
        _with(event, body=msgspec.structs.replace(event.body, **fields)) if which(event) else event
        for event in log
    ]


def limited(log: Sequence[Event], which: Which, **limits: Any) -> Log:
    """Change limits in the Begins that fit."""
    found = []
    for event in log:
        if which(event):
            own: Any = event.body
            changed = msgspec.structs.replace(own.limits, **limits)
            event = _with(event, body=msgspec.structs.replace(own, limits=changed))
        found.append(event)
    return found


def appended(log: Sequence[Event], sender: str, recipient: str, cause: int, body: AnyMessage) -> Log:
    """Append one event to the log."""
    return [*log, Event(len(log) + 1, log[-1].at, sender, recipient, cause, body)]


def again(log: Sequence[Event], which: Which) -> Log:
    """Append the first event that fits a second time."""
    event = find(log, which)
    return appended(log, event.sender, event.recipient, event.cause, event.body)


def swapped(log: Sequence[Event], one: Event, other: Event) -> Log:
    """Swap two events, and keep each event's cause pointing at the event that caused it."""
    seqs = {one.seq: other.seq, other.seq: one.seq}
    found = [_with(event, cause=seqs.get(event.cause, event.cause)) for event in log]
    found[one.seq - 1], found[other.seq - 1] = (
        _with(found[other.seq - 1], seq=one.seq),
        _with(found[one.seq - 1], seq=other.seq),
    )
    return found


def inserted(log: Sequence[Event], after: Event, recipient: str, body: AnyMessage) -> Log:
    """Insert one more output of the decision that posted `after`, right behind it."""
    found = []
    for event in log:
        shifted = event
        if event.seq > after.seq:
            shifted = _with(event, seq=event.seq + 1, cause=_shifted(event.cause, after.seq))
        if isinstance(event.body, TurnRequested):
            new = tuple(_shifted(seq, after.seq) for seq in event.body.new)
            shifted = _with(shifted, body=msgspec.structs.replace(event.body, new=new))
        found.append(shifted)
        if event is after:
            found.append(Event(after.seq + 1, after.at, after.sender, recipient, after.cause, body))
    return found


def _shifted(seq: int, after: int) -> int:
    return seq + 1 if seq > after else seq


def elsewhere(log: Sequence[Event], which: Which, recipient: str) -> Log:
    """Send the events that fit to another recipient."""
    return [_with(event, recipient=recipient) if which(event) else event for event in log]


def _with(event: Event, **fields: Any) -> Event:
    return msgspec.structs.replace(event, **fields)
