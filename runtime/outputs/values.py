"""JSON values as Python has them, and their kinds: a table, a list, a mapping, a text, a number, ..."""

from typing import Any, Final, Literal, TypeAlias, TypeGuard

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import to_json

Plain: TypeAlias = str | int | float | bool | None
"""A JSON value without parts."""

JsonValue: TypeAlias = Any
"""A `Plain`, a list of JSON values, or a dict of them with text keys. A recursive alias slows the type
checker down and catches nothing here: `json_value` makes all values that get this far."""

Kind: TypeAlias = Literal["table", "list", "mapping", "text", "number", "flag", "nothing"]

_PLAIN: Final = (str, int, float, type(None))


def is_plain(value: object) -> TypeGuard[Plain]:
    """Return True for a value without parts."""
    return isinstance(value, _PLAIN)


def is_record_list(items: list[JsonValue]) -> TypeGuard[list[dict[str, Plain]]]:
    """Return True for a table: objects with the same keys, at least one, and plain values only."""
    if not items or not isinstance(items[0], dict) or not items[0]:
        return False
    names = items[0].keys()
    return all(
        isinstance(row, dict) and row.keys() == names and all(map(is_plain, row.values())) for row in items
    )


def kind_of(value: JsonValue) -> Kind:
    """Return the kind of a value. A list of objects with the same keys and plain values is a table.

    >>> kind_of([{"id": 1}, {"id": 2}]), kind_of([1, 2])
    ('table', 'list')
    """
    match value:
        case None:
            return "nothing"
        case bool():
            return "flag"
        case int() | float():
            return "number"
        case str():
            return "text"
        case dict():
            return "mapping"
        case _:
            return "table" if is_record_list(value) else "list"


def json_value(value: object) -> JsonValue:
    """Return a Python value as JSON has it: structs, dataclasses and models become dicts.

    Raises InvalidPrompt for a value that JSON cannot hold.
    """
    return read_json(to_json(value, what="it"))


def read_json(raw: Json) -> JsonValue:
    """Decode JSON that the runtime has checked."""
    return msgspec.json.decode(raw)
