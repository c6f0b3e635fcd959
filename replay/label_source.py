"""The way of a label: from an event back to the event that brought the label into the session.

- An agent has a label since the first event that brought it: its prompt, a result, an end, or words.
- A prompt leads to the parent, an end to the sub-agent, a file or a key of the shared state to its writer.
- The last event of the way is a tool that states the label, or an input of the client.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from callboard.actors.protocol.addresses import is_agent, parent_of
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, Begin, DelegationEnded
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.replay.rights import rights_of


class _Place(NamedTuple):
    """An agent, and the event up to which its labels count."""

    agent: str
    seq: int


def label_source(events: Iterable[Event], seq: int, label: str) -> tuple[Event, ...]:
    """Return the events through which a label came to the agent of an event, the newest first.

    events: of the session, up to that event at least. Raises UnknownName if that agent does not have it.
    """
    log = [event for event in events if event.seq <= seq]
    found = tuple(_way(log, seq, label))
    if not found:
        raise UnknownName(
            f"no agent of event {seq} has read the label {label!r}; see `callboard tree --labels`"
        )
    return found


def _way(log: list[Event], seq: int, label: str) -> Iterator[Event]:
    event = log[seq - 1]
    who = event.recipient if is_agent(event.recipient) else event.sender
    place: _Place | None = _Place(who, seq)
    while place is not None and (at := _brought(log, place, label)):
        yield log[at - 1]
        place, input_at = _before(log, log[at - 1], label)
        if input_at:
            yield log[input_at - 1]


def _brought(log: list[Event], place: _Place, label: str) -> int:
    """Return the seq of the event that brought a label to an agent; 0 for none."""
    agent = rights_of(log[: place.seq]).get(place.agent)
    labels = agent.labels if agent else []
    return next((one.seq for one in labels if one.label == label), 0)


def _before(log: list[Event], event: Event, label: str) -> tuple[_Place | None, int]:
    """Return where a label was before an event brought it: an agent, or the seq of a client's input."""
    body = event.body
    if isinstance(body, Begin):
        return _above(log, event)
    if isinstance(body, DelegationEnded):
        return _Place(body.address, event.seq - 1), 0
    if isinstance(body, ToolReturned) and (writer := _writer(log, event, body, label)) is not None:
        return _Place(writer.recipient, writer.seq), 0
    return None, 0


def _above(log: list[Event], begin: Event) -> tuple[_Place | None, int]:
    """Return the parent of an agent as of its delegation, or the ask of the host."""
    parent = parent_of(begin.recipient)
    if is_agent(parent):
        return _Place(parent, begin.seq - 1), 0
    asks = [one.seq for one in log[: begin.seq] if isinstance(one.body, Ask)]
    return None, asks[-1] if asks else 0


def _writer(log: list[Event], event: Event, read: ToolReturned, label: str) -> Event | None:
    """Return the answer of the call that wrote a file or a key, which a call has read with a label."""
    names = {*(one.name for one in read.uses if label in one.labels), *read.state_read}
    before = reversed(log[: event.seq - 1])
    return next((one for one in before if not names.isdisjoint(_written(one.body, label))), None)


def _written(body: AnyMessage, label: str) -> Iterator[str]:
    """Yield the files and keys that a call wrote with a label."""
    if isinstance(body, ToolReturned):
        yield from (use.name for use in body.uses if use.entry == "write" and label in use.labels)
        yield from (update.key for update in body.state_update if label in update.labels)
