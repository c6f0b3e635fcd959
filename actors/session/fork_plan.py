"""The plan of a fork: the event at which it begins, and its changes, checked against the recording. No I/O.

Only inputs can be changed: what a port or the client has said. An agent's own messages follow from them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import CLIENT, PORTS
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.session.recorded_answers import OF_MODEL, Call, RecordedAnswers

_NAMED = 12


class ForkPlan(NamedTuple):
    """The plan of a fork. base: the seq of the last shared event. recorded: the answers behind it."""

    base: int
    recorded: RecordedAnswers


def plan(
    session_id: str,
    events: Sequence[Event],
    at: int | None,
    changes: Mapping[Call, Json],
    until: int | None = None,
) -> ForkPlan:
    """Plan a fork of a session.

    at: the last shared event; None for the one before the first change, or the last one without changes.
    changes: new results of tools and new replies of models, by call. until: the last event whose input by
    the client is posted again; None for all. Raises MisuseError for an event that is not there or a change
    that cannot be made, UnknownName for a call that was never answered.
    """
    first = _first_change(session_id, events, changes)
    base = first - 1 if at is None else at
    if not 1 <= base <= len(events):
        raise MisuseError(
            f"session {session_id} has events 1 to {len(events)}; "
            f"a fork begins behind one of them, not {base}"
        )
    if first <= base:
        raise MisuseError(
            f"the answer to change first is event {first}, which a fork at {base} shares: fork at "
            f"{first - 1} or before"
        )
    recorded = RecordedAnswers(events, base, changes)
    recorded.inputs = [one for one in recorded.inputs if until is None or one.seq <= until]
    return ForkPlan(base, recorded)


def _first_change(session_id: str, events: Sequence[Event], changes: Mapping[Call, Json]) -> int:
    """Return the seq of the first answer that is changed; the one behind the last event without changes."""
    known = calls_of(events) if changes else {}
    for call in changes:
        if call not in known:
            raise UnknownName(
                f"session {session_id} has no answer of {named(call)}; there are: {_few(known)}"
            )
    return min((known[call] for call in changes), default=len(events) + 1)


def calls_of(events: Sequence[Event]) -> dict[Call, int]:
    """Return the answers that can be changed: the seq of each, by the call that it answers."""
    found: dict[Call, int] = {}
    for event in events:
        body = event.body
        if isinstance(body, ToolReturned):
            found[event.recipient, body.turn, body.call] = event.seq
        elif isinstance(body, ModelReplied) and body.status == "ok":
            found[event.recipient, body.turn, OF_MODEL] = event.seq
    return found


def call_at(session_id: str, events: Sequence[Event], seq: int) -> Call:
    """Return the call that an event answers. Raises MisuseError for an event that cannot be changed."""
    if not 1 <= seq <= len(events):
        raise UnknownName(f"session {session_id} has events 1 to {len(events)}; there is no {seq}")
    event, known = events[seq - 1], calls_of(events)
    call = next((call for call, at in known.items() if at == seq), None)
    if call is not None:
        return call
    if event.sender in PORTS or event.sender == CLIENT:
        raise MisuseError(
            f"event {seq}, {event.kind}, cannot be changed: only answers of tools and models can"
        )
    raise MisuseError(
        f"event {seq}, {event.kind}, was decided by {event.sender} and cannot be changed; change the input "
        f"that it follows from: {_input_of(events, event, known)}"
    )


def _input_of(events: Sequence[Event], event: Event, known: Mapping[Call, int]) -> str:
    """Return the first input on the way back from an event, in words."""
    while event.cause and event.sender not in PORTS:
        event = events[event.cause - 1]
    call = next((call for call, at in known.items() if at == event.seq), None)
    words = f"event {event.seq}, {event.kind}"
    return words if call is None else f"{words}, which is {named(call)}"


def named(call: Call) -> str:
    """Return a call as AGENT:TURN:CALL, the reply of a model as AGENT:TURN."""
    agent, turn, index = call
    return f"{agent}:{turn}" if index == OF_MODEL else f"{agent}:{turn}:{index}"


def _few(known: Mapping[Call, int]) -> str:
    few = [named(call) for call in sorted(known)]
    return ", ".join(few[:_NAMED]) + (", ..." if len(few) > _NAMED else "") if few else "none"
