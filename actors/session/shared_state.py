"""The shared state of a session: the fold of its log over the updates of its tools. No I/O.

Deciders fold their own inboxes. This fold is of the board itself: it takes every `ToolReturned` with status
`ok`, in the order of the log, of every agent, also of one that has ended. Deciders do not see it. The port
gate keeps it, so that live sessions, recovery and simulation have the same one.

Rules
  - A tool is given the state as of its `CallTool`, on every run of that call.
  - An update of an unknown key, or of the wrong type, changes nothing: the fold takes any log.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import SessionOpened, resumed_in
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.labels import Labels, united
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.shared_state import (
    StateKey,
    StateUpdate,
    integer_of,
    items_of,
    why_refused,
    why_unusable,
)


class Cell(msgspec.Struct, frozen=True):
    """A key with its value.

    value, items, total: of a key that replaces, appends or adds. by, seq: the agent whose tool wrote it last,
    and the event of that; empty and 0 before the first update. labels: of the value.
    """

    key: StateKey
    value: Json
    items: IntMap[Json] = IntMap()
    total: int = 0
    by: str = ""
    seq: int = 0
    labels: Labels = ()

    def updated(self, update: StateUpdate, by: str, seq: int) -> "Cell":
        """Return the cell after an update that fits."""
        value = update.value
        if self.key.reducer == "replace":
            return replace(self, value=value, by=by, seq=seq, labels=update.labels)
        cell = replace(self, by=by, seq=seq, labels=united(self.labels, update.labels))
        if self.key.reducer == "append":
            return replace(cell, items=self.items.append(value))
        return replace(cell, total=self.total + (integer_of(value) or 0))

    def json(self) -> Json:
        """Return the value as JSON."""
        if self.key.reducer == "append":
            return Json(b"[" + b",".join(map(bytes, self.items.values())) + b"]")
        return Json(str(self.total).encode()) if self.key.reducer == "add" else self.value

    def read(self) -> object:
        """Return the value as a new Python value."""
        return self.total if self.key.reducer == "add" else msgspec.json.decode(self.json())


class SharedState(msgspec.Struct, frozen=True):
    """The shared state at one point of a log. cells: by key; the mapping never changes."""

    cells: Mapping[str, Cell] = {}

    def __bool__(self) -> bool:
        return bool(self.cells)

    def declaring(self, keys: Iterable[StateKey]) -> "SharedState":
        """Return the state with further keys. Those that are known already stay as they are."""
        new = {key.name: _cell(key) for key in keys if key.name not in self.cells and not why_unusable(key)}
        return SharedState({**self.cells, **new}) if new else self

    def after(self, event: Event) -> "SharedState":
        """Return the state after an event."""
        body = event.body
        if isinstance(body, SessionOpened):
            return self.declaring(body.state)
        if (resumed := resumed_in(body)) is not None:
            return self.declaring(resumed.state)
        if not isinstance(body, ToolReturned) or body.status != "ok" or not body.state_update:
            return self
        cells = dict(self.cells)
        for update in body.state_update:
            cell = cells.get(update.key)
            if cell is not None and not why_refused(cell.key, update.value):
                cells[update.key] = cell.updated(update, event.recipient, event.seq)
        return SharedState(cells)

    def why_refused(self, updates: Iterable[StateUpdate]) -> str:
        """Return the reason to refuse these updates, in words for their tool; empty if all fit."""
        for update in updates:
            cell = self.cells.get(update.key)
            if cell is None:
                known = ", ".join(self.cells) or "none"
                return f"the session declares no state key {update.key!r:.80}; there are: {known}"
            if why := why_refused(cell.key, update.value):
                return f"the state key {update.key!r} cannot take this update: {why}"
        return ""

    def cell_of(self, key: str) -> Cell:
        """Return a key with its value. Raises KeyError for a key that is not declared."""
        cell = self.cells.get(key)
        if cell is None:
            known = ", ".join(self.cells) or "none"
            raise KeyError(f"the session declares no state key {key!r:.80}; there are: {known}")
        return cell

    def json_of(self, key: str) -> Json:
        """Return the value of a key as JSON. Raises KeyError for a key that is not declared."""
        return self.cell_of(key).json()

    def labels_of(self, keys: Iterable[str]) -> Labels:
        """Return the labels of the values of these keys."""
        return united(*(self.cells[key].labels for key in keys if key in self.cells))

    def values(self) -> dict[str, object]:
        """Return all values as new Python values, by key."""
        return {name: cell.read() for name, cell in self.cells.items()}


NO_STATE: Final = SharedState()
"""The state of a session that declares no key."""


def _cell(key: StateKey) -> Cell:
    if key.reducer == "append":
        return Cell(key, key.first, _list_of(items_of(key.first) or ()))
    if key.reducer == "add":
        return Cell(key, key.first, total=integer_of(key.first) or 0)
    return Cell(key, key.first)


def _list_of(items: Iterable[Json]) -> IntMap[Json]:
    found: IntMap[Json] = IntMap()
    for item in items:
        found = found.append(item)
    return found


def folded(events: Iterable[Event]) -> SharedState:
    """Return the shared state after these events, which begin with the first of their session."""
    state = NO_STATE
    for event in events:
        state = state.after(event)
    return state
