"""Summary and parameters from a docstring in Google, NumPy or reST style.

A docstring in another style has a summary and no parameters. It is never an error.
"""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

_SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Other Parameters)\s*:?$")
_HEADING = re.compile(
    r"(Args|Arguments|Params|(Other )?Parameters|Returns?|Yields?|Raises|Examples?|Notes?|See Also|Attributes"
    r"|Warnings?|Warns|References)\s*:?$"
)
_UNDERLINE = re.compile(r"-{3,}$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")
_REST_ENTRY = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Described(NamedTuple):
    """A docstring's content. summary: its first paragraph, on one line. parameters: their texts by name."""

    summary: str
    parameters: dict[str, str]


def described(docstring: str | None) -> Described:
    """Read a docstring.

    >>> described("Add.\\n\\nArgs:\\n    a: The one.\\n    b (int): The\\n        other.")
    Described(summary='Add.', parameters={'a': 'The one.', 'b': 'The other.'})
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters = {name: text for name, text in _entries(lines) if text}
    return Described(_summary(lines), parameters)


def _summary(lines: list[str]) -> str:
    paragraph = []
    for line in lines:
        if not line.strip() or _HEADING.match(line) or line.startswith(":"):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if found := _REST_ENTRY.match(line):
            yield found[1], _joined(found[2], lines[at + 1 :], 0)
        elif _SECTION.match(line):
            is_numpy = _is_underlined(lines, at)
            entry = _NUMPY_ENTRY if is_numpy else _GOOGLE_ENTRY
            yield from _section(lines[at + 1 + is_numpy :], entry)


def _section(lines: list[str], entry: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the entries of one section, which share the indentation of its first line."""
    first = next((line for line in lines if line.strip()), "")
    indent = _indent(first)
    for at, line in enumerate(lines):
        if line.strip() and (_indent(line) < indent or _starts_section(lines, at)):
            return
        if _indent(line) == indent and (found := entry.match(line.strip())):
            start = found[2] if entry is _GOOGLE_ENTRY else ""
            yield found[1], _joined(start, lines[at + 1 :], indent)


def _starts_section(lines: list[str], at: int) -> bool:
    return _is_underlined(lines, at) or (_indent(lines[at]) == 0 and _HEADING.match(lines[at]) is not None)


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1].strip()) is not None


def _joined(start: str, following: list[str], indent: int) -> str:
    """Join a text and the lines after it that are indented more than its entry."""
    parts = [start.strip()]
    for line in following:
        if not line.strip() or _indent(line) <= indent:
            break
        parts.append(line.strip())
    return " ".join(part for part in parts if part)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
