"""YAML of JSON values, which every safe loader reads back. No anchors, no tags, no types of its own.

A text stands bare only if it begins with a letter, holds nothing but letters, digits, spaces and a few marks,
and no version of YAML reads it as anything but a text. Every other text is written as JSON has it, which is
YAML too.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from callboard.runtime.outputs.values import JsonValue, Plain

_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9 _./()-]*")
# As YAML 1.1 has them: its readers are the most common ones.
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"})
_UNREADABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def yaml(value: JsonValue) -> str:
    """Encode a value, without a line break at its end.

    >>> print(yaml({"name": "Ada", "tags": ["a", "true"]}))
    name: Ada
    tags:
    - a
    - "true"
    """
    return "\n".join(_lines(value, ""))


def _lines(value: JsonValue, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _entry(f"{indent}{_text(key)}:", part, indent, is_item=False)
    elif isinstance(value, list) and value:
        for part in value:
            yield from _entry(f"{indent}-", part, indent, is_item=True)
    else:
        yield f"{indent}{_scalar(value)}"


def _entry(head: str, part: JsonValue, indent: str, *, is_item: bool) -> Iterable[str]:
    """Return the lines of a part behind its key or hyphen."""
    if not (isinstance(part, dict | list) and part):
        return [f"{head} {_scalar(part)}"]
    # A list stands below its key without a further indent, as most writers have it.
    inner = indent if isinstance(part, list) and not is_item else f"{indent}  "
    lines = _lines(part, inner)
    if not is_item:
        return [head, *lines]
    return [f"{head} {next(lines)[len(inner) :]}", *lines]


def _scalar(value: Plain | list[JsonValue] | dict[str, JsonValue]) -> str:
    """Return the text of a plain value, an empty list or an empty object."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _float(number: float) -> str:
    """Return a number that YAML 1.1 reads as one: it wants a point before an exponent, and a sign in it."""
    told = repr(number)
    mantissa, mark, exponent = told.partition("e")
    if mark and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}{mark}{exponent}"


def _text(text: str) -> str:
    if _BARE.fullmatch(text) and text[-1] != " " and text.lower() not in _WORDS:
        return text
    written = json.dumps(text, ensure_ascii=False)
    for mark in sorted(set(_UNREADABLE.findall(written))):
        written = written.replace(mark, f"\\u{ord(mark):04x}")
    return written
