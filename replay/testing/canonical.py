"""Bytes of any frozen value, the same in every process: equal values have equal bytes.

Sets and mappings are sorted by the bytes of their members. Structs, dataclasses and enums carry the name of
their class; named tuples are tuples, True is 1 and 2.0 is 2, which they equal. Anything else is refused: its
bytes would be those of a memory address.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import lru_cache

import msgspec

from callboard.actors.protocol.errors import MisuseError

KEPT = 1 << 15


def canonical(value: object) -> bytes:
    """Return the bytes of `value`; those of hashable values are cached. Raises MisuseError."""
    try:
        return _kept(value)
    except TypeError:
        return _encoded(value)


def _encoded(value: object) -> bytes:
    return msgspec.msgpack.encode(_plain(value))


_kept = lru_cache(KEPT)(_encoded)


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | bytes):
        return value
    if isinstance(value, Enum):
        return _marked("enum", [type(value).__name__, value.name])
    if isinstance(value, bool | int):
        return int(value) if -(1 << 63) <= value < 1 << 64 else _marked("int", str(value))
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1 << 53 else value
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return _compound(value)


def _compound(value: object) -> msgspec.msgpack.Ext:
    if isinstance(value, AbstractSet):
        return _marked("set", sorted(canonical(one) for one in value))
    if isinstance(value, Mapping):
        return _marked("map", sorted((canonical(key), canonical(one)) for key, one in value.items()))
    if isinstance(value, msgspec.Raw):
        return _marked("raw", bytes(value))
    if isinstance(value, msgspec.Struct):
        names: Sequence[str] = value.__struct_fields__
    elif dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        raise MisuseError(
            f"a state holds a {type(value).__name__}, which has no bytes of its own; use numbers, text, "
            "tuples, frozensets, enums, frozen structs or dataclasses"
        )
    return _marked("class", [type(value).__name__, *(_plain(getattr(value, name)) for name in names)])


def _marked(kind: str, parts: object) -> msgspec.msgpack.Ext:
    """Mark bytes so that they differ from those of a tuple of the same parts."""
    return msgspec.msgpack.Ext(1, msgspec.msgpack.encode((kind, parts)))


def key(message: object) -> object:
    """Return the part that messages of one kind share: their class, or the name of a text or tuple."""
    if type(message) is tuple and message and isinstance(message[0], str):
        return message[0]
    return message if type(message) is str else type(message)


def tag(message: object) -> str:
    """Return the name of a message or state."""
    return _name(key(message))


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def describe(message: object) -> str:
    """Describe a message in full, for names of strands; a text stays as it is."""
    return message if isinstance(message, str) else repr(message)
