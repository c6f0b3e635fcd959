"""JSON texts: read totally, measured cheaply, pointed into, compared as JSON compares.

Nothing here raises anything but `Unreadable`, whatever the bytes are.
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
    """The value of a JSON text, of dict, list, str, int, float, bool and None. Raises Unreadable."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise TooDeep("nests too deeply to be read") from None
    except (msgspec.DecodeError, UnicodeError, ValueError) as error:
        raise Unreadable(f"not JSON: {error}") from None


def values_bound(text: bytes) -> int:
    """An upper bound of how many values a JSON text holds; commas inside strings are counted too."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")


def is_deeper(text: bytes, value: object, levels: int) -> bool:
    """Whether the value, read from this text, nests more than so many levels of arrays and objects."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    layer = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        layer = [child for each in layer for child in _children(each) if isinstance(child, dict | list)]
    return bool(layer)


def longest(text: bytes, value: object, bound: int) -> int:
    """The most entries of any array or object, or 0 if the text is too short for more than `bound`."""
    if len(text) <= 2 * bound:
        return 0
    most = 0
    layer = [value] if isinstance(value, dict | list) else []
    while layer:
        most = max([most, *(len(each) for each in layer)])
        layer = [child for each in layer for child in _children(each) if isinstance(child, dict | list)]
    return most


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def escape(token: str) -> str:
    """One part of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(parts: Iterable[str | int]) -> str:
    """A JSON pointer: `/items/0/name`, or nothing for the root."""
    return "".join(f"/{escape(str(part))}" for part in parts)


def canonical(value: object) -> str:
    """A text that two values share exactly if JSON Schema calls them equal: 1 is 1.0, true is not 1.

    Texts, not Python objects, are compared and hashed: hashes of numbers and tuples are not keyed, so a
    value could be made whose parts all collide.
    """
    if isinstance(value, str):
        return f'"{value}'  # no other text starts like this
    return _CANONICAL.encode(_plain(value))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
