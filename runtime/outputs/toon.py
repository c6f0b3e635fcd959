"""TOON, and the values that every encoding writes.

TOON, version 3 of its specification: JSON data as indented lines, in which a uniform table has one head.

    users[2]{id,name}:
      1,Ada
      2,Linus

The two Python libraries of this format follow a draft that nests heads, and fail a case of the published
specification. `tests/data/toon` has its cases for encoders.

Rules
  - A list of objects with the same keys and no inner lists or objects is a table. A list of plain values is
    one line. Every other list has a line for each item, behind a hyphen.
  - A text is quoted if it could be read as anything else. A key is quoted unless it is a name.
  - Keys are folded on request only, and no number has an exponent between 1e-6 and 1e21.

Key folding of TOON, as section 13.4 of its specification has it in the mode `safe`.

    {"a": {"b": {"c": 1}}}  becomes  {"a.b.c": 1}

A chain of objects with one key each becomes one key, whose parts are joined by dots.

Rules
  - Every part is a name without dots, so that the chain can be told from a key that has dots of its own.
  - A chain stays as it is where its folded key is a key beside it, or its whole path a key of the root.
  - Lists stay as they are: with folded keys, their items could become a table that they are not.

JSON values as Python has them, and their kinds: a table, a list, a mapping, a text, a number, ...
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

import msgspec

from callboard.actors.protocol.immutable import Json

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


def read_json(raw: Json) -> JsonValue:
    """Decode JSON that the runtime has checked."""
    return msgspec.json.decode(raw)


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)
# The specification asks for the first line only. Some readers also end a line at the marks of the second.
_SPECIAL: Final = re.compile('[:"\\\\\\[\\]{}\x00-\x1f\x7f-\x9f\u2028\u2029]')
_ESCAPED: Final = re.compile('[\\\\"\x00-\x1f]')
_SHORT: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES: Final = _SHORT | {chr(one): f"\\u{one:04x}" for one in range(32) if chr(one) not in _SHORT}
_WORDS: Final = frozenset({"true", "false", "null"})
_LARGEST: Final = 1e21  # from here on a number may have an exponent
_SMALLEST: Final = 1e-6
_SEGMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def toon(value: JsonValue, *, delimiter: str = ",", indent: int = 2, fold_depth: int = 0) -> str:
    """Encode a value.

    delimiter: `,`, `|` or a tab. indent: spaces of a level. fold_depth: the parts that a folded key has at
    most, such as 3 for `a.b.c`; 0 folds none. A reader gets folded keys back only if it expands paths.

    >>> print(toon({"users": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Linus"}]}))
    users[2]{id,name}:
      1,Ada
      2,Linus
    """
    writer = _Writer(delimiter)
    lines = writer.root(with_folded_keys(value, fold_depth))
    return "\n".join(f"{' ' * (indent * depth)}{text}" for depth, text in lines)


Line = tuple[int, str]
"""A line with its depth."""


class _Writer:
    """Writes the lines of a value, with one delimiter for all lists."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter
        self._mark = "" if delimiter == "," else delimiter

    def root(self, value: JsonValue) -> Iterable[Line]:
        """Return the lines of a whole document."""
        if isinstance(value, dict):
            return self._fields(value, 0)
        if isinstance(value, list):
            return self._list("", value, 0) if value else [(0, "[]")]
        return [(0, self._plain(value))]

    def _fields(self, fields: dict[str, JsonValue], depth: int) -> Iterator[Line]:
        for key, value in fields.items():
            yield from self._field(_key(key), value, depth)

    def _field(self, key: str, value: JsonValue, depth: int) -> Iterator[Line]:
        if isinstance(value, dict):
            yield depth, f"{key}:"
            yield from self._fields(value, depth + 1)
        elif isinstance(value, list):
            yield from self._list(key, value, depth) if value else [(depth, f"{key}: []")]
        else:
            yield depth, f"{key}: {self._plain(value)}"

    def _list(self, key: str, items: list[JsonValue], depth: int) -> Iterator[Line]:
        """Yield the lines of a list. key: before its head; empty at the root."""
        if is_record_list(items):
            names = list(items[0])
            fields = self._delimiter.join(map(_key, names))
            yield depth, f"{key}{self._head(items)}{{{fields}}}:"
            for row in items:
                yield depth + 1, self._row([row[name] for name in names])
        else:
            yield from self._items(key, items, depth, depth + 1)

    def _items(self, key: str, items: list[JsonValue], depth: int, inner: int) -> Iterator[Line]:
        """Yield the lines of a list that is not a table. inner: the depth of its items."""
        if is_plain_list(items):
            row = self._row(items)
            yield depth, f"{key}{self._head(items)}:{' ' * bool(row)}{row}"
            return
        yield depth, f"{key}{self._head(items)}:"
        for item in items:
            yield from self._item(item, inner)

    def _item(self, item: JsonValue, depth: int) -> Iterator[Line]:
        if isinstance(item, list):  # a list in a list has no place for the names of a table
            yield from self._items("- ", item, depth, depth + 1)
        elif not isinstance(item, dict):
            yield depth, f"- {self._plain(item)}"
        elif not item:
            yield depth, "-"
        else:
            # Its fields stand one level below the hyphen, and the first one on the line of the hyphen.
            lines = self._fields(item, depth + 1)
            yield depth, f"- {next(lines)[1]}"
            yield from lines

    def _head(self, items: Sequence[object]) -> str:
        return f"[{len(items)}{self._mark}]"

    def _row(self, values: Iterable[Plain]) -> str:
        return self._delimiter.join(map(self._plain, values))

    def _plain(self, value: Plain) -> str:
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        return self._text(value) if isinstance(value, str) else _number(value)

    def _text(self, text: str) -> str:
        is_bare = (
            text
            and text == text.strip()
            and text[0] not in "-#"  # some readers take a line with `#` for a comment
            and self._delimiter not in text
            and text not in _WORDS
            and not _SPECIAL.search(text)
            and not _NUMBER.fullmatch(text)
        )
        return text if is_bare else _quoted(text)


def is_plain_list(items: list[JsonValue]) -> TypeGuard[list[Plain]]:
    """Return True if no item is a list or an object."""
    return all(map(is_plain, items))


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    if _ESCAPED.search(text):
        for mark, escape in _ESCAPES.items():  # the backslash first
            text = text.replace(mark, escape)
    return f'"{text}"'


def _number(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    if number == int(number) and abs(number) < _LARGEST:
        return str(int(number))
    return f"{Decimal(repr(number)):f}" if _SMALLEST <= abs(number) < _LARGEST else repr(number)


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
