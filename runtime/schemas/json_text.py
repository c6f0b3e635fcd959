"""JSON texts: read totally, measured cheaply, pointed into, compared as JSON compares.

Nothing here raises anything but `Unreadable`, whichever bytes it is given.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_DECODER: Final[msgspec.json.Decoder[object]] = msgspec.json.Decoder(object)


class Unreadable(ValueError):
    """The bytes are no JSON text that can be used; the message says why."""


class TooDeep(Unreadable):
    """The text nests more than the decoder's stack allows, some 1,000 levels."""


def parse(text: bytes) -> object:
    """Return the value of a JSON text, in Python's own types. Raises Unreadable."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise TooDeep("nests too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeError, ValueError) as error:
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
