"""States as data: digests and JSON, equal in any process and under any Python; and the fields that differ."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final, NamedTuple, NoReturn

import msgspec
from msgspec.structs import StructConfig

from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.session.shared_state import SharedState
from callboard.actors.session.step import ActorState


def _refuse(value: object) -> NoReturn:
    raise NotImplementedError(f"a state holds a {type(value).__name__}, which has no canonical form")


_ENCODER: Final = msgspec.json.Encoder(order="deterministic", enc_hook=_refuse)


def state_digest(state: ActorState) -> str:
    """Return SHA-256 of a state's kind and canonical JSON, in hex. Raises NotImplementedError without one."""
    return sha256(type(state).__name__.encode() + b"\0" + _ENCODER.encode(state)).hexdigest()


def to_jsonable(value: object) -> object:
    """Return a state, or a part of it, with lists and dicts in place of its maps."""
    if isinstance(value, IntMap):
        found = {key: to_jsonable(one) for key, one in value.items()}
        return list(found.values()) if list(found) == list(range(len(found))) else found
    # Messages and their parts are tagged or leave defaults out; they hold no maps, so the encoder takes them.
    if not isinstance(value, msgspec.Struct) or _is_tagged(value.__struct_config__):
        return value
    return {name: to_jsonable(getattr(value, name)) for name in value.__struct_fields__}


def _is_tagged(config: StructConfig) -> bool:
    return config.tag is not None or config.omit_defaults


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
