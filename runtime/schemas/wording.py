"""Values, names and lists in a message: short, and never longer for a longer value."""

import json
from collections.abc import Iterable

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.limits import TEXT_CHARS_MAX

_SHOWN_CHARS = 60
_SHOWN_NAMES = 6


def clip(text: str, chars: int = TEXT_CHARS_MAX) -> str:
    """Cut a text to so many characters."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def problem(path: str, message: str) -> SchemaProblem:
    """Return a problem within the bounds."""
    return SchemaProblem(clip(path), clip(message))


def show(value: object) -> str:
    """Write a value as JSON does, if that is short; else give its kind and size.

    >>> show("a"), show([1, 2]), show(None)
    ('"a"', 'an array of 2 items', 'null')
    """
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, dict):
        return f"an object with {count(len(value), 'property', 'properties')}" if value else "{}"
    if isinstance(value, list):
        return f"an array of {count(len(value), 'item')}" if value else "[]"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a very large integer"
    return json.dumps(value)


def quote(text: str) -> str:
    """Put a string into its JSON quotes, cut."""
    return json.dumps(clip(str.__str__(text), _SHOWN_CHARS), ensure_ascii=False)


def names(keys: Iterable[str]) -> str:
    """Quote some names; the first few if they are many."""
    return listing(quote(key) for key in keys)


def listing(parts: Iterable[str], joint: str = ", ", most: int = _SHOWN_NAMES) -> str:
    """Join the parts; the first few if they are many."""
    shown = list(parts)
    more = f"{joint}and {len(shown) - most} more" if len(shown) > most else ""
    return joint.join(shown[:most]) + more


def count(number: int, one: str, many: str = "") -> str:
    """Write a number and its noun.

    >>> count(1, "item"), count(2, "item")
    ('1 item', '2 items')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
