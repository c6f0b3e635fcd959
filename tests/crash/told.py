"""Checks of what programs, tools and tells were told, from the events alone.

They fold the log by themselves: no code of the runtime that makes the shared state or ends a tell is used.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from callboard.actors.protocol.client_messages import AskEnded, Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Finished
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from tests.crash.notes import Effect, Seen, SeenState, SeenTell
from tests.crash.programs import GIVEN_UP


def wrong_tells(events: Sequence[Event], seen: Sequence[Seen], is_over: bool) -> Iterator[str]:
    """Yield words with several ends, with another end than was told, or open in a session that has ended."""
    ends: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if isinstance(body := event.body, TellEnded):
            ends[body.request_id].append(body.turn if body.status == "heard" else 0)
    said = [event.body.request_id for event in events if isinstance(event.body, Tell)]
    yield from (f"{name} was said {said.count(name)} times" for name in set(said) if said.count(name) > 1)
    yield from (f"{name} ended {len(turns)} times" for name, turns in ends.items() if len(turns) > 1)
    if is_over:
        yield from (f"{name} has no end" for name in said if name not in ends)
    for note in seen:
        if isinstance(note, SeenTell) and ends[note.request_id][:1] != [note.turn]:
            yield f"{note.request_id} was answered with turn {note.turn}, and is {ends[note.request_id]}"


def wrong_state(
    events: Sequence[Event], name: str, effects: Sequence[Effect], seen: Sequence[Seen]
) -> Iterator[str]:
    """Yield the looks at the shared state that the returned calls do not explain."""
    calls = {event.seq: event.body for event in events if isinstance(event.body, CallTool)}
    done: list[tuple[int, str]] = []  # the seq of the return, and the label
    for event in events:
        if isinstance(event.body, ToolReturned) and event.body.status == "ok":
            call = calls[event.cause]
            if call.effect != "read":
                done.append((event.seq, label_of(call)))
    asked = {
        f"{name}/{event.sender}/{event.body.turn}/{event.body.call}": event.seq
        for event in events
        if isinstance(event.body, CallTool)
    }
    for effect in effects:
        before = sum(seq < asked.get(effect.key, 0) for seq, _ in done)
        if effect.key in asked and effect.read != before:
            yield f"{effect.key} read {effect.read} labels of the shared state, and {before} were there"
    for note in seen:
        if isinstance(note, SeenState):
            counted = sum(seq <= note.seq for seq, _ in done)
            labels = tuple(label for _, label in done[: len(note.did)])
            if note.did != labels or note.count != len(note.did) or len(note.did) < counted:
                yield f"the shared state at {note.seq} was {note.did}, and is {labels}"


def wrong_programs(events: Sequence[Event]) -> Iterator[str]:
    """Yield the ends of calls that a program saw and that the log does not have."""
    calls = {event.seq: event.body for event in events if isinstance(event.body, CallTool)}
    status = {
        label_of(calls[event.cause]): event.body.status
        for event in events
        if isinstance(event.body, ToolReturned) and event.cause in calls
    }
    labels = {label_of(call) for call in calls.values()}
    for event in events:
        for label, end in ends_in(event.body).items():
            logged = status.get(label, "")
            if label in labels and end in ("ok", "interrupted") and end != logged:
                yield f"event {event.seq}: a program saw {label} end {end}, and it is {logged or 'open'}"
            if label in labels and end != GIVEN_UP and logged == "interrupted" and end != "interrupted":
                yield f"event {event.seq}: a program saw {label} end {end}, and its effect is unknown"


def ends_in(body: object) -> Mapping[str, str]:
    """Return the ends of calls that the result of a program names; nothing for other messages."""
    if not isinstance(body, AskEnded | Finished) or body.kind not in ("answered", "reported"):
        return {}
    value: Any = msgspec.json.decode(body.value)
    return value.get("ends", {}) if isinstance(value, dict) else {}


def label_of(call: CallTool) -> str:
    """Return the label of a call, empty for none."""
    arguments: Any = msgspec.json.decode(call.arguments)
    return str(arguments.get("label", ""))
