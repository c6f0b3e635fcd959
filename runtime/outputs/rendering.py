"""The text of an output that a model reads.

    concise     [search] 2 rows of id, name: 1, Ada; 2, Linus
    standard    the same, then lines with type, status and size
    detailed    the same, then a line with the call, those that the tool shows, and the result
    raw         the result alone, or the error

Rules
  - A renderer gets a `Shown`, which has no telemetry, no metadata and no time. Its one id is the model's own
    of the call, which only the detailed format writes.
  - The outputs of one tool begin with the same bytes, `[NAME] `, in every format but raw.
  - An observation is the same text behind `Observation: `.

Summaries by rule, for outputs whose tool gives none. Pure: the same value has the same summary.

    nothing    "no result"
    flag       "true", "false"
    number     its digits
    text       the text itself up to 200 characters on one line, else its size and its beginning
    table      rows, the names of the columns, the first 3 rows
    list       the number of items, and the first 5
    mapping    the number of keys, and the first 8 with their values

A text inside is cut to 40 characters, and a part that has parts is given as its size.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from callboard.actors.protocol.token_estimates import estimated_tokens
from callboard.runtime.outputs.encodings import compact_json, encoded
from callboard.runtime.outputs.tool_output import Encoding, OutputError, ResponseFormat
from callboard.runtime.outputs.toon import JsonValue, is_plain, kind_of

SUMMARY_CHARS_MAX: Final = 4_000
"""Characters of a summary or observation that the model reads."""
TEXT_CHARS: Final = 200  # of a text in its summary
CELL_CHARS: Final = 40  # of a text inside a table, list or mapping
ROWS: Final = 3
ITEMS: Final = 5
KEYS: Final = 8
COLUMNS: Final = 12


class Shown(NamedTuple):
    """Everything of an output that a renderer can read.

    tool, call_id: of the call. value: the result. summary: the tool's own, empty for one by rule.
    observation: for ReAct, empty for the summary. error: instead of a result.
    copied: the metrics and metadata that the tool shows, by name.
    """

    tool: str
    value: JsonValue
    summary: str = ""
    observation: str = ""
    error: OutputError | None = None
    call_id: str = ""
    copied: Mapping[str, JsonValue] = {}


class Rendering(NamedTuple):
    """The text that a model reads, and its estimated tokens."""

    text: str
    tokens_estimated: int


def rendered(
    shown: Shown, form: ResponseFormat, encoding: Encoding = "json", *, is_observation: bool = False
) -> Rendering:
    """Render an output.

    >>> print(rendered(Shown("add", 3), "standard").text)
    [add] 3
    type: number
    status: ok
    size: 1 value
    """
    start = "Observation: " * is_observation
    if form == "raw":
        lines = [start + (_error(shown.error) if shown.error else _result(shown, encoding))]
    else:
        lines = [f"{start}[{shown.tool}] {_summary(shown, is_observation=is_observation)}"]
    if form in ("standard", "detailed"):
        lines += _facts(shown)
    if form == "detailed":
        lines += _details(shown, encoding)
    text = "\n".join(lines)
    return Rendering(text, estimated_tokens(text))


def _details(shown: Shown, encoding: Encoding) -> list[str]:
    lines = [f"call: {shown.call_id}"]
    lines += [f"{name}: {compact_json(value)}" for name, value in shown.copied.items()]
    return lines if shown.error is not None else [*lines, "result:", _result(shown, encoding)]


def _facts(shown: Shown) -> list[str]:
    if shown.error is not None:
        return ["type: error", "status: error", f"size: {size_of(shown.error.message)}"]
    return [f"type: {kind_of(shown.value)}", "status: ok", f"size: {size_of(shown.value)}"]


def _summary(shown: Shown, *, is_observation: bool) -> str:
    own = shown.observation * is_observation or shown.summary
    if not own:
        own = summary_of(shown.value) if shown.error is None else _error(shown.error)
    return _shortened(own)


def _shortened(text: str) -> str:
    if len(text) <= SUMMARY_CHARS_MAX:
        return text
    return f"{text[:SUMMARY_CHARS_MAX]} [cut: the first {SUMMARY_CHARS_MAX:,} of {len(text):,} characters]"


def _error(error: OutputError | None) -> str:
    assert error is not None
    return f"error {error.code}: {error.message}" if error.message else f"error {error.code}"


def _result(shown: Shown, encoding: Encoding) -> str:
    """Return the result as text. A text is written as it is, except in XML, which needs its escapes."""
    if isinstance(shown.value, str) and encoding != "xml":
        return shown.value
    return encoded(shown.value, encoding, shown.tool).text


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
