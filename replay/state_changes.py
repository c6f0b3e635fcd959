"""The changes between two states: a structural diff of the fields that differ."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.shared_state import SharedState
from callboard.replay.digests import to_jsonable


class Change(NamedTuple):
    """A field of a state that has changed. before, after: as JSON values, None without one."""

    path: str
    before: object
    after: object


def changes(before: object, after: object, path: str = "") -> Iterator[Change]:
    """Yield the fields that differ. Parts that both states share are not looked at."""
    if before is after or before == after:
        return
    if type(before) is not type(after) or not isinstance(after, msgspec.Struct | IntMap | dict):
        yield Change(path, to_jsonable(before), to_jsonable(after))
        return
    mine, their = dict(_fields(before)), dict(_fields(after))
    for name in {**mine, **their}:
        yield from changes(mine.get(name), their.get(name), f"{path}.{name}" if path else name)


def may_change_shared(body: object) -> bool:
    """Return False for a message that certainly changes no key of the shared state."""
    if isinstance(body, ToolReturned):
        return bool(body.state_update)
    return isinstance(body, SessionOpened | Resumed | Forked)


def shared_changes(before: SharedState, after: SharedState) -> Iterator[Change]:
    """Yield the keys of the shared state whose values differ, as `shared.KEY`."""
    for name, cell in after.cells.items():
        old = before.cells[name].read() if name in before.cells else None
        if (new := cell.read()) != old:
            yield Change(f"shared.{name}", old, new)


def value_at(state: object, path: str) -> object:
    """Return the value of a field of a state, None without one.

    path: the names of fields, with dots between; "" for all of the state.
    """
    for part in path.split(".") if path else ():
        state = dict(_fields(state)).get(part)
    return to_jsonable(state)


def _fields(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields of a struct, or the entries of a map, by name."""
    if isinstance(value, IntMap | dict):
        return ((str(key), inner) for key, inner in value.items())
    names = value.__struct_fields__ if isinstance(value, msgspec.Struct) else ()
    return ((name, getattr(value, name)) for name in names)
