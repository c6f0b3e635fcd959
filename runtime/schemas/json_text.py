"""JSON texts: read, measured, pointed into, compared, and shown in messages that a long value keeps short.

Nothing here raises anything but `Unreadable`, whichever bytes it is given.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.limits import TEXT_CHARS_MAX

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_DECODER: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)
_SHOWN_CHARS = 60
_SHOWN_NAMES = 6


class Unreadable(ValueError):
    """The bytes are not JSON text that can be used; the message says why."""


class TooDeep(Unreadable):
    """The text nests more than the decoder's stack allows, some 1,000 levels."""


def parse(text: bytes) -> object:
    """Return the value of a JSON text, in Python's own types. Raises Unreadable."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise TooDeep("nests too deeply to be read") from None
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None


def values_bound(text: bytes) -> int:
    """Return an upper bound of the number of values in a JSON text; commas inside strings count too."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def is_deeper(text: bytes, value: object, levels: int) -> bool:
    """Return True if the value, read from this text, nests more than so many levels."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [child for each in layer for child in _children(each) if isinstance(child, dict | list)]
    return bool(layer)


def size(value: object) -> int:
    """Return the number of values in a value, itself included."""
    return 1 + sum(map(size, _children(value)))


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def escape(token: str) -> str:
    """Escape one part of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(parts: Iterable[str | int]) -> str:
    """Return a JSON pointer: `/items/0/name`, or nothing for the root."""
    return "".join(f"/{escape(str(part))}" for part in parts)


def canonical(value: object) -> str:
    """Return a text that two values share exactly if JSON Schema calls them equal: 1 is 1.0, not true."""
    # Texts, not Python objects, are compared: hashes of numbers and tuples are not keyed, so a value could be
    # made whose parts all collide.
    return _CANONICAL.encode(_plain(value))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- in messages -----------------------------------------------------------------------


def clip(text: str, chars: int = TEXT_CHARS_MAX) -> str:
    """Cut a text to so many characters."""
    return text if len(text) <= chars else text[: chars - 1] + "…"


def problem(path: str, message: str) -> SchemaProblem:
    """Return a problem within the bounds."""
    return SchemaProblem(clip(path), clip(message))


def show(value: object) -> str:
    """Write a value as JSON does, if that is short; else give its kind and size."""
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
    """Write a number and its noun."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
