"""The values inside a message's JSON, and the paths to them.

A path is made of the names of fields and the places of list items, with dots between: `body.content.0.text`.
`*` stands for each field or item. A name that holds a dot, a star or a quote stands in double quotes, as
JSON writes it. A string that holds a JSON object or list is read where a path goes on behind it: tools
often return JSON as text.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError

Leaf: TypeAlias = tuple[str, "str | int | float | bool | None"]
"""A path, and the string, number, boolean or null there."""

_PART: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^."]+')
_PLAIN: Final = re.compile(r"[^.*\"\s]+")
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def leaves(value: object, path: str) -> Iterator[Leaf]:
    """Yield the leaves of a JSON value in their order. path: to the value itself."""
    if value is None or isinstance(value, str | int | float):
        yield path, value
    for part, inner in _parts(value):
        yield from leaves(inner, f"{path}.{part}")


def names(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the names of the fields inside a value, each with the path to the field."""
    for part, inner in _parts(value):
        if isinstance(value, dict):
            yield f"{path}.{part}", _name(part)
        yield from names(inner, f"{path}.{part}")


def _parts(value: object) -> Iterable[tuple[str, object]]:
    """Return the fields or items of a value, by their parts of a path."""
    if isinstance(value, dict):
        return ((written(name), inner) for name, inner in value.items())
    return ((str(place), inner) for place, inner in enumerate(value)) if isinstance(value, list) else ()


def written(name: str) -> str:
    """Return a field's name as a path holds it."""
    return name if name.isidentifier() or _PLAIN.fullmatch(name) else _encode(name).decode()


def parts_of(path: str) -> tuple[str, ...]:
    """Split a path into its parts, each as `written` writes it. Raises MisuseError."""
    parts = _PART.findall(path)
    if not parts or ".".join(parts) != path:
        raise _no_path(path)
    return tuple(written(_name(part)) if part.startswith('"') else part for part in parts)


def at_path(value: object, parts: tuple[str, ...], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values at a path, each with the path that leads to it. parts: of `parts_of`."""
    if not parts:
        yield path, value
        return
    for part, inner in _led_to(opened(value), parts[0]):
        yield from at_path(inner, parts[1:], f"{path}.{part}" if path else part)


def _led_to(value: object, part: str) -> Iterable[tuple[str, object]]:
    """Return the fields or items of a value that one part of a path leads to."""
    if part == "*" or not isinstance(value, dict):
        return (one for one in _parts(value) if part in ("*", one[0]))
    # the field is taken by its name: a search asks this of every message
    name = _name(part)
    return ((part, value[name]),) if name in value else ()


def opened(value: object) -> object:
    """Return the object or list that a string holds as JSON text; another value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return _decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _name(part: str) -> str:
    try:
        return str(_decode(part)) if part.startswith('"') else part
    except msgspec.DecodeError:
        raise _no_path(part) from None


def _no_path(path: str) -> MisuseError:
    return MisuseError(
        f"{path!r} is not a path: write field names with dots between, such as body.output.cents; "
        'a name with a dot in it stands in quotes: body."a.b"'
    )
