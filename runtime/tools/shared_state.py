"""The shared state as tools and programs see it: values to read, and updates posted with the result.

A tool reads the state as of its call. Its own updates, and those of calls that return meanwhile, are in the
state of later calls. The keys that a tool reads are named in the log.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt, InvalidState
from callboard.actors.protocol.labels import NO_LABELS, Labels
from callboard.actors.protocol.shared_state import Reducer, StateKey, StateUpdate, why_unusable
from callboard.actors.session.shared_state import NO_STATE, SharedState
from callboard.runtime.foreign_values import taken
from callboard.runtime.programs.run import ProgramRun
from callboard.runtime.sanitize import clean_text, to_json

UPDATES_MAX: Final = 1_000
"""Updates that one call may make."""

UPDATE_BYTES_MAX: Final = 1_000_000
"""Bytes of JSON that the updates of one call may have together."""

_TOO_LARGE: Final = (
    f"a call may make {UPDATES_MAX:,} updates of the shared state, of {UPDATE_BYTES_MAX:,} bytes "
    "together; keep large values in a file, and its path in the state"
)

NAME_CHARS_MAX: Final = 100
"""Characters of the name of a key."""


class SharedKey:
    """A key of the session's shared state: how tools update it, and its first value.

    reducer: `"replace"` takes the place of the value, `"append"` adds an item to a list, `"add"` adds a whole
        number. first: the value before the first update; by default null, an empty list, or 0. A key that
        replaces keeps the JSON type of its first value; null allows any.

    Raises InvalidAgent for another reducer, or a first value that does not fit it.

    >>> SharedKey("append")
    SharedKey('append', [])
    """

    def __init__(self, reducer: Reducer = "replace", first: object = None) -> None:
        if reducer not in _FIRST:
            raise InvalidAgent(f"reducer={reducer!r:.80}: use {', '.join(map(repr, _FIRST))}")
        self.reducer: Reducer = reducer
        self.first = _FIRST[reducer] if first is None else first
        try:
            value = to_json(self.first, max_bytes=UPDATE_BYTES_MAX, what="The first value")
        except InvalidPrompt as error:
            raise InvalidAgent(f"a key of the shared state cannot begin with this value: {error}") from None
        self._key = StateKey("", reducer, value)
        if why := why_unusable(self._key):
            raise InvalidAgent(f"first={first!r:.80}: {why}")

    def __repr__(self) -> str:
        return f"SharedKey({self.reducer!r}, {self.first!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SharedKey) and other._key == self._key

    def __hash__(self) -> int:
        return hash((self.reducer, bytes(self._key.first)))

    def named(self, name: str) -> StateKey:
        """Return the key as it stands in the log."""
        return StateKey(name, self.reducer, self._key.first)


_FIRST: Final[Mapping[Reducer, object]] = {"replace": None, "append": [], "add": 0}


class SharedValues(Mapping[str, Any]):
    """The shared state as of a call. Each look at a key returns a new value, and names the key as read."""

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        value = self._shared.cell_of(key).read()
        self.read.add(key)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._shared.cells

    def __iter__(self) -> Iterator[str]:
        return iter(self._shared.cells)

    def __len__(self) -> int:
        return len(self._shared.cells)


class StateAccess:
    """One call's access to the shared state. values: for reading."""

    def __init__(self, shared: SharedState = NO_STATE) -> None:
        self._shared = shared
        self.values = SharedValues(shared)
        self._updates: list[StateUpdate] = []
        self._bytes = 0

    def update(self, key: str, value: object) -> None:
        """Add an update. Raises InvalidState for one that cannot be posted."""
        found = taken(value, max_bytes=UPDATE_BYTES_MAX)
        if found.is_cut:
            raise InvalidState(f"the state key {str(key)!r:.80} cannot take this update: {_TOO_LARGE}")
        given = found.json
        update = StateUpdate(clean_text(str(key)), given)
        if why := self._shared.why_refused((update,)):
            raise InvalidState(why)
        if len(self._updates) >= UPDATES_MAX or self._bytes + len(given) > UPDATE_BYTES_MAX:
            raise InvalidState(_TOO_LARGE)
        self._bytes += len(given)
        self._updates.append(update)

    @property
    def is_used(self) -> bool:
        """Return True if a value was read, or an update was made."""
        return bool(self.values.read or self._updates)

    @property
    def labels_read(self) -> Labels:
        """Return the labels of the values that were read."""
        read = self.values.read
        return self._shared.labels_of(read) if read else NO_LABELS

    def taken(self) -> tuple[tuple[StateUpdate, ...], tuple[str, ...]]:
        """Return the updates so far, in order, and the keys that were read, sorted."""
        read = self.values.read
        return tuple(self._updates), tuple(sorted(read)) if read else ()


def access_of(values: Mapping[str, object] | None) -> StateAccess:
    """Return access to a state with these values, for a context that a test makes; tools may replace all."""
    keys = [SharedKey("replace").named(name) for name in values or ()]
    shared = NO_STATE.declaring(keys)
    cells = {
        name: cell.updated(StateUpdate(name, to_json((values or {})[name])), "", 0)
        for name, cell in shared.cells.items()
    }
    return StateAccess(SharedState(cells))


def is_key_name(name: object) -> TypeGuard[str]:
    """Return whether a key may be declared by this name."""
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARS_MAX and name.isprintable()


def state_keys(agent: str, given: Mapping[str, object]) -> dict[str, SharedKey]:
    """Return an agent's keys of the shared state; a plain value is one that replaces. Raises InvalidAgent."""
    found: dict[str, SharedKey] = {}
    for name, key in given.items():
        if not is_key_name(name):
            raise InvalidAgent(
                f"agent {agent!r}: a state key is named by 1 to {NAME_CHARS_MAX} printable characters, "
                f"not {name!r:.80}"
            )
        found[name] = key if isinstance(key, SharedKey) else SharedKey("replace", key)
    return found


def declared(all_keys: Mapping[str, Mapping[str, SharedKey]]) -> tuple[StateKey, ...]:
    """Return the keys that the agents of a session declare together. Raises InvalidAgent.

    all_keys: the keys of each agent, by its name.
    """
    found: dict[str, tuple[str, SharedKey]] = {}
    for agent, keys in all_keys.items():
        for name, key in keys.items():
            first, known = found.setdefault(name, (agent, key))
            if known != key:
                raise InvalidAgent(
                    f"agents {first!r} and {agent!r} declare the state key {name!r} as {known} and {key}; "
                    "declare it in the same way, or only once"
                )
    return tuple(key.named(name) for name, (_, key) in found.items())


class ProgramState:
    """The shared state as a program reads it: `ctx.state["key"]`, and nothing else.

    The log keeps the values that a step has read, for its re-execution. Therefore this is not a mapping,
    because going through all keys would put the whole state into the log.
    """

    __slots__ = ("_run",)

    __iter__ = None  # else Python would look for the keys 0, 1, 2 ...
    __contains__ = None

    def __init__(self, run: ProgramRun) -> None:
        self._run = run

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key, as a new Python value. Raises KeyError for an undeclared key."""
        if not is_key_name(key):  # it cannot be declared, and the log may not be able to hold it
            raise KeyError(f"{key!r:.80} is not a name of a state key")
        return msgspec.json.decode(self._run.state_of(key))
