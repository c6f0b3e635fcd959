"""Shared state: every update fits its declaration, and the state is what the log folds to.

`Naive` folds a log in other words than the port gate: plain Python values, without persistent structures.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.shared_state import StateKey, StateUpdate
from callboard.replay.testing.rules.base import Invariant

FOLD: Final = "On every run, a tool is given the shared state to which the log folds at its call."


class Naive:
    """The shared state as plain values. values: by key."""

    def __init__(self) -> None:
        self.keys: dict[str, StateKey] = {}
        self.values: dict[str, Any] = {}

    def declare(self, keys: Iterable[StateKey]) -> None:
        """Take the keys that are not known yet."""
        for key in keys:
            if key.name not in self.keys:
                self.keys[key.name] = key
                self.values[key.name] = msgspec.json.decode(key.first)

    def why_unfit(self, update: StateUpdate) -> str:
        """Return how an update does not fit its key, or an empty text."""
        key, value = self.keys.get(update.key), msgspec.json.decode(update.value)
        if key is None:
            return f"updates {update.key!r}, which is not declared"
        if key.reducer == "add":
            return "" if type(value) is int else f"adds {value!r:.40} to {update.key!r}"
        first = msgspec.json.decode(key.first)
        if key.reducer == "append" or _is_alike(first, value):
            return ""
        return f"puts {value!r:.40} into {update.key!r}, which holds values like {first!r:.40}"

    def take(self, body: ToolReturned) -> None:
        """Apply the updates of a call that returned ok."""
        for update in body.state_update:
            value, reducer = msgspec.json.decode(update.value), self.keys[update.key].reducer
            if reducer == "append":
                self.values[update.key] = [*self.values[update.key], value]
            else:
                self.values[update.key] = value + self.values[update.key] if reducer == "add" else value

    def hear(self, event: Event) -> None:
        """Take in the next event of the log."""
        body = event.body
        if isinstance(body, SessionOpened | Resumed):
            self.declare(body.state)
        elif isinstance(body, ToolReturned) and body.status == "ok":
            self.take(body)

    def copy(self) -> dict[str, Any]:
        """Return the values as they are now."""
        return dict(self.values)


def _is_alike(first: object, value: object) -> bool:
    """Return whether a key that began with the first value may hold the other."""
    return first is None or _kind(first) == _kind(value)


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


class StateUpdates(Invariant):
    """The updates of the shared state."""

    name = "state-updates"
    rule = "Every update of the shared state names a declared key and has a value of its type."
    _naive: Naive = msgspec.field(default_factory=Naive)

    def on_SessionOpened(self, event: Event, opened: SessionOpened) -> None:
        """Record the keys."""
        self._naive.declare(opened.state)

    def on_Resumed(self, event: Event, resumed: Resumed) -> None:
        """Record further keys."""
        self._naive.declare(resumed.state)

    def on_ToolReturned(self, event: Event, returned: ToolReturned) -> None:
        """Check the updates and the keys that were read."""
        for update in returned.state_update:
            if why := self._naive.why_unfit(update):
                self.broken(event.seq, f"a tool of {event.recipient} {why}")
        if returned.state_update and returned.status != "ok":
            self.broken(event.seq, f"a call that is {returned.status} updates the shared state")
        for key in returned.state_read:
            if key not in self._naive.keys:
                self.broken(event.seq, f"a tool of {event.recipient} has read {key!r}, which is not declared")


def states_at(events: Iterable[Event], wanted: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the shared state before each of these events, by its seq."""
    naive, found, seqs = Naive(), {}, set(wanted)
    for event in events:
        if event.seq in seqs:
            found[event.seq] = naive.copy()
        naive.hear(event)
    return found
