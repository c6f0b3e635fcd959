"""Key folding of TOON, as section 13.4 of its specification has it in the mode `safe`.

    {"a": {"b": {"c": 1}}}  becomes  {"a.b.c": 1}

A chain of objects with one key each becomes one key, whose parts are joined by dots.

Rules
  - Every part is a name without dots, so that the chain can be told from a key that has dots of its own.
  - A chain stays as it is where its folded key is a key beside it, or its whole path a key of the root.
  - Lists stay as they are: with folded keys, their items could become a table that they are not.
"""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from callboard.runtime.outputs.values import JsonValue

_SEGMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Chain(NamedTuple):
    parts: tuple[str, ...]
    end: JsonValue


def with_folded_keys(value: JsonValue, depth: int) -> JsonValue:
    """Return a value with folded keys.

    depth: the parts that a folded key has at most; below 2 changes nothing.

    >>> with_folded_keys({"a": {"b": {"c": 1}}, "d": {}}, 2)
    {'a.b': {'c': 1}, 'd': {}}
    """
    return _folded(value, depth, "", frozenset(value)) if isinstance(value, dict) else value


def _folded(
    fields: dict[str, JsonValue], depth: int, prefix: str, root: Collection[str]
) -> dict[str, JsonValue]:
    """Fold the keys of an object.

    prefix: its path with a dot behind, '' for the root. root: the keys of the root.
    """
    found: dict[str, JsonValue] = {}
    for key, value in fields.items():
        parts, end = _chain(key, value, depth)
        name = ".".join(parts)
        if not all(map(_SEGMENT.fullmatch, parts)) or name in fields or f"{prefix}{name}" in root:
            parts, end, name = (key,), value, key
        left = depth - len(parts) if len(parts) > 1 else depth
        found[name] = _folded(end, left, f"{prefix}{name}.", root) if isinstance(end, dict) else end
    return found


def _chain(key: str, value: JsonValue, depth: int) -> _Chain:
    """Return the chain that begins with a key. One of a single part is not a chain."""
    parts = [key]
    while len(parts) < depth and isinstance(value, dict) and len(value) == 1:
        ((key, value),) = value.items()
        parts.append(key)
    return _Chain(tuple(parts), value)
