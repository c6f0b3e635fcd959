"""Summaries by rule, for outputs whose tool gives none. Pure: the same value has the same summary.

    nothing    "no result"
    flag       "true", "false"
    number     its digits
    text       the text itself up to 200 characters on one line, else its size and its beginning
    table      rows, the names of the columns, the first 3 rows
    list       the number of items, and the first 5
    mapping    the number of keys, and the first 8 with their values

A text inside is cut to 40 characters, and a part that has parts is given as its size.
"""

from typing import Final

from callboard.runtime.outputs.values import JsonValue, is_plain, kind_of

TEXT_CHARS: Final = 200  # of a text in its summary
CELL_CHARS: Final = 40  # of a text inside a table, list or mapping
ROWS: Final = 3
ITEMS: Final = 5
KEYS: Final = 8
COLUMNS: Final = 12


def summary_of(value: JsonValue) -> str:
    """Return the summary of a value.

    >>> summary_of([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Linus"}])
    '2 rows of id, name: 1, Ada; 2, Linus'
    """
    match kind_of(value):
        case "nothing":
            return "no result"
        case "text":
            return _text(value)
        case "table":
            return _table(value)
        case "list":
            return _list(value)
        case "mapping":
            return _mapping(value)
        case "flag" | "number":
            return _cell(value)


def size_of(value: JsonValue) -> str:
    """Return the size of a value in words.

    >>> size_of([{"id": 1}, {"id": 2}])
    '2 rows, 1 column'
    """
    match kind_of(value):
        case "nothing":
            return "empty"
        case "text":
            return f"{counted(len(value), 'character')}, {counted(_lines(value), 'line')}"
        case "table":
            return f"{counted(len(value), 'row')}, {counted(len(value[0]), 'column')}"
        case "list":
            return counted(len(value), "item")
        case "mapping":
            return counted(len(value), "key")
        case "flag" | "number":
            return "1 value"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _text(text: str) -> str:
    if len(text) <= TEXT_CHARS and "\n" not in text:
        return text
    return (
        f"{counted(len(text), 'character')}, {counted(_lines(text), 'line')}: {_one_line(text, TEXT_CHARS)}"
    )


def _table(rows: list[dict[str, JsonValue]]) -> str:
    names = list(rows[0])
    shown = names[:COLUMNS]
    first = "; ".join(", ".join(_cell(row[name]) for name in shown) for row in rows[:ROWS])
    columns = ", ".join(_cell(name) for name in shown)
    return f"{counted(len(rows), 'row')} of {columns}{_more(names, COLUMNS)}: {first}{_more(rows, ROWS)}"


def _list(items: list[JsonValue]) -> str:
    if not items:
        return "an empty list"
    first = ", ".join(map(_cell, items[:ITEMS]))
    return f"{counted(len(items), 'item')}: {first}{_more(items, ITEMS)}"


def _mapping(fields: dict[str, JsonValue]) -> str:
    if not fields:
        return "no keys"
    first = ", ".join(f"{_cell(key)}={_cell(part)}" for key, part in list(fields.items())[:KEYS])
    return f"{counted(len(fields), 'key')}: {first}{_more(fields, KEYS)}"


def _more(parts: list[JsonValue] | dict[str, JsonValue], shown: int) -> str:
    return ", ..." if len(parts) > shown else ""


def _cell(value: JsonValue) -> str:
    if isinstance(value, str):
        return _one_line(value, CELL_CHARS)
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_plain(value):
        return "null" if value is None else str(value)
    return f"({size_of(value)})"


def _one_line(text: str, chars: int) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: 4 * chars].split())  # a long text is not read to its end
    return line if len(line) <= chars and len(text) <= 4 * chars else f"{line[:chars].rstrip()}..."


def _lines(text: str) -> int:
    return text.count("\n") + 1
