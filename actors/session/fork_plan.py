"""The plan of a fork: the event at which it begins, and its changes, checked against the recording. No I/O.

Only inputs can be changed: what a port or the client has said. An agent's own messages follow from them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.addresses import CLIENT, PORTS
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ApprovalGiven, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import read_profile
from callboard.actors.protocol.value_types import ForkChange
from callboard.actors.session.place_names import few_named, named
from callboard.actors.session.recorded_answers import OF_MODEL, Call, RecordedAnswers

_CLIENT: Final[Call] = ("", 0, 0)

Place: TypeAlias = Call | int
"""An answer to change: the call that it answers, or its seq."""


class ForkPlan(NamedTuple):
    """The plan of a fork. base: the seq of the last shared event. recorded: the answers behind it.

    changes: as the log of the fork has them. until: the seq of the last input of the client that is posted
    again.
    """

    base: int
    recorded: RecordedAnswers
    changes: tuple[ForkChange, ...]
    until: int


def plan(
    session_id: str,
    events: Sequence[Event],
    at: int | None,
    changes: Mapping[Place, Json],
    until: int | None = None,
) -> ForkPlan:
    """Plan a fork of a session.

    at: the last shared event; None for the one before the first change, or the last one without changes.
    changes: new results of tools and new replies of models, by call; also prompts and answers of people, by
    seq. until: the last event whose input by the client is posted again; None for all. Raises MisuseError
    for an event that is not there or a change that cannot be made, UnknownName for a call that was never
    answered.
    """
    made = _made(session_id, events, changes)
    base = _checked_base(session_id, len(events), at, made)
    last = len(events) if until is None else min(until, len(events))
    return ForkPlan(base, recorded_answers(events, base, made, last), made, last)


def _checked_base(session_id: str, length: int, at: int | None, made: Sequence[ForkChange]) -> int:
    """Return the last shared event. length: of the origin, in events. Raises MisuseError."""
    first = min((one.replaces for one in made), default=length + 1)
    base = first - 1 if at is None else at
    if not 1 <= base <= length:
        raise MisuseError(
            f"session {session_id} has events 1 to {length}; a fork begins after one of them, not {base}"
        )
    if first <= base:
        raise MisuseError(
            f"the answer to change first is event {first}, which a fork at {base} shares: fork at "
            f"{first - 1} or before"
        )
    return base


def begun_by_profile(events: Sequence[Event], profiles: Sequence[str]) -> dict[str, list[Event]]:
    """Return the `Begin`s of the agents of these profiles, by profile."""
    begun = [event for event in events if isinstance(event.body, Begin)]
    return {name: [one for one in begun if _is_of(one, name)] for name in profiles}


def base_for_agents(
    session_id: str, events: Sequence[Event], at: int | None, changed: Mapping[str, Sequence[Event]]
) -> int | None:
    """Return the last event to share so that changed agents begin again behind it.

    at: the event that is wished; None for the last one before the first of them begins. changed: the `Begin`s
    of the agents that a change is for, by the name of their profile. Without changes `at` is returned as it
    is. Raises MisuseError if no agent of a change begins behind it, or at all.
    """
    bases: list[int] = []
    for name, begun in changed.items():
        if not begun:
            raise MisuseError(f"no {name} began in session {session_id}, so a change of it would do nothing")
        # Its delegation or ask is decided with the profiles of then: it stands behind the shared events, too.
        last = max(one.cause for one in begun) - 1
        if at is not None and at > last:
            these = f"all {len(begun)} agents of {name} begin" if len(begun) > 1 else f"{name} begins"
            raise MisuseError(
                f"a change of {name} does nothing after event {at}, since {these} before it: fork at {last} "
                f"or before"
            )
        bases.append(min(one.cause for one in begun) - 1)
    return at if at is not None else min(bases, default=None)


def plan_changed(
    session_id: str,
    events: Sequence[Event],
    at: int | None,
    changes: Mapping[Place, Json],
    changed: Mapping[str, Sequence[Event]],
    until: int | None = None,
) -> ForkPlan:
    """Plan a fork with changed answers and changed agents, before the first of both if `at` is None.

    changed: as for `base_for_agents`. Raises what `plan`, `base_for_agents` and `refuse_idle` raise, and
    MisuseError for an answer that is the recorded one.
    """
    base = base_for_agents(session_id, events, at, changed)
    if at is None and changes:
        before = plan(session_id, events, None, changes).base
        base = before if base is None else min(base, before)
    planned = plan(session_id, events, base, changes, until)
    refuse_idle(session_id, events, planned)
    for change in planned.changes:
        if _value_of(events[change.replaces - 1]) == change.value:
            raise MisuseError(f"the new answer for event {change.replaces} is the recorded one")
    return planned


def _value_of(event: Event) -> Json | None:
    match event.body:
        case ToolReturned(output=value) | ModelReplied(content=value) | Ask(prompt=value):
            return value
        case _:
            return None


def refuse_idle(session_id: str, events: Sequence[Event], planned: ForkPlan) -> None:
    """Refuse a fork behind whose base no ask runs and none is asked again. Raises MisuseError."""
    asks = [event.seq for event in events if isinstance(event.body, Ask)]
    ends = [event.seq for event in events if isinstance(event.body, AskEnded)]
    is_asked = sum(seq <= planned.base for seq in asks) > sum(seq <= planned.base for seq in ends)
    if is_asked or any(isinstance(one.body, Ask) for one in planned.recorded.inputs):
        return
    if not asks:
        raise MisuseError(f"session {session_id} has no prompt, so nothing runs in a fork of it")
    first, last = asks[-1] - 1, ends[-1] - 1
    raise MisuseError(
        f"no prompt is left after event {planned.base}, so nothing runs there: name a change, "
        f"or fork at {first}, before the last prompt, or at any event up to {last}"
    )


def _is_of(event: Event, profile: str) -> bool:
    return isinstance(event.body, Begin) and read_profile(bytes(event.body.profile)).name == profile


def planned_again(events: Sequence[Event], forked: Forked) -> RecordedAnswers:
    """Return the recorded answers of a fork that an earlier process began. events: of its origin."""
    return recorded_answers(events, forked.at, forked.changes, forked.until)


def recorded_answers(
    events: Sequence[Event], base: int, changes: Sequence[ForkChange], until: int
) -> RecordedAnswers:
    """Return the answers of a session behind an event. until: the last input to post again."""
    recorded = RecordedAnswers(events, base, {one.replaces: one.value for one in changes})
    recorded.inputs = [one for one in recorded.inputs if one.seq <= until]
    return recorded


def _made(session_id: str, events: Sequence[Event], changes: Mapping[Place, Json]) -> tuple[ForkChange, ...]:
    """Return the changes in the order of the answers that they replace. Raises UnknownName, MisuseError."""
    known = calls_of(events) if changes else {}
    found: dict[int, ForkChange] = {}
    for place, value in changes.items():
        call, seq = _located(session_id, events, known, place)
        if seq in found:
            raise MisuseError(f"event {seq} is changed twice; give one value for it")
        _refuse_misfit(events[seq - 1], value)
        found[seq] = ForkChange(*call, seq, value)
    return tuple(found[seq] for seq in sorted(found))


def _located(
    session_id: str, events: Sequence[Event], known: Mapping[Call, int], place: Place
) -> tuple[Call, int]:
    """Return the call and the seq of an answer to change. Raises UnknownName, MisuseError."""
    if isinstance(place, int):
        return call_at(session_id, events, place), place
    if place not in known:
        few = few_named(known, place[0])
        raise UnknownName(f"session {session_id} has no answer of {named(place)}; there are: {few}")
    return place, known[place]


def _refuse_misfit(event: Event, value: Json) -> None:
    """Refuse a value that an answer of this kind cannot have. Raises MisuseError."""
    is_text = bytes(value).lstrip().startswith(b'"')
    if isinstance(event.body, ApprovalGiven) and not (is_text and msgspec.json.decode(value)):
        raise MisuseError(
            f"event {event.seq} is a person's answer: give the text approved, or the reason for a refusal"
        )


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
    event = events[seq - 1]
    body = event.body
    if isinstance(body, ToolReturned | ApprovalGiven):
        return event.recipient, body.turn, body.call
    if isinstance(body, ModelReplied) and body.status == "ok":
        return event.recipient, body.turn, OF_MODEL
    if isinstance(body, Ask):
        return _CLIENT
    if event.sender in PORTS or event.sender == CLIENT:
        raise MisuseError(
            f"event {seq}, {event.kind}, cannot be changed: only answers of tools, models and people, and "
            "the prompts of asks can"
        )
    raise MisuseError(
        f"event {seq}, {event.kind}, was decided by {event.sender} and cannot be changed; change the input "
        f"that it follows from: {_input_of(events, event)}"
    )


def _input_of(events: Sequence[Event], event: Event) -> str:
    """Return the first input on the way back from an event, in words."""
    while event.cause and event.sender not in PORTS:
        event = events[event.cause - 1]
    call = next((call for call, at in calls_of(events).items() if at == event.seq), None)
    words = f"event {event.seq}, {event.kind}"
    return words if call is None else f"{words}, which is {named(call)}"
