"""JSON texts: read, measured, pointed into, compared, and shown in messages that a long value keeps short.

Nothing here raises anything but `Unreadable`, whichever bytes it is given.

Bounds of schemas, of values and of the work of a check; each figure beside its reason.

Measured figures are of one 2-core machine with CPython 3.11, jsonschema 4.26 and jsonschema-rs 0.60.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec

from callboard.actors.protocol.value_types import SchemaProblem

# --- schemas ---------------------------------------------------------------------------

SCHEMA_BYTES_MAX: Final = 64 * 1024  # of a schema's text; a longer one is refused before it is parsed
SCHEMA_DEPTH_MAX: Final = 32  # levels of nesting of a schema's text; each nested object uses two of them
SUBSCHEMAS_MAX: Final = 1_000  # subschemas that a schema may write down
STEPS_PER_VALUE_MAX: Final = 10**9  # estimated; more comes from doubling by references and takes minutes
MULTIPLE_OF_MIN: Final = 1e-9  # below it doubles have no digits left to be a multiple with

# --- values ----------------------------------------------------------------------------

VALUE_BYTES_MAX: Final = 1024 * 1024  # bytes of a report's text
VALUE_DEPTH_MAX: Final = 64  # levels of nesting of a report

# --- answers ---------------------------------------------------------------------------

PROBLEMS_MAX: Final = 10  # in one answer; a model fixes the first ones and tries again
TEXT_CHARS_MAX: Final = 300  # characters of a problem's message, and of its path
ERRORS_READ_MAX: Final = 100  # errors taken from jsonschema before it is stopped

# --- the event loop --------------------------------------------------------------------

INLINE_SCHEMA_BYTES: Final = 8 * 1024  # the worker reads a longer schema; the worst of these take 5 ms
INLINE_VALUE_BYTES: Final = 64 * 1024  # the worker reads a longer value; decoding these takes 0.5 ms at most
# Estimated steps of jsonschema-rs on the loop: mostly 0.03 us each, 0.25 us in an `enum` of objects.
INLINE_STEPS: Final = 100_000
INLINE_PATTERNS: Final = 16  # regular expressions compiled on the loop: 0.7 ms each at worst
# Memory of one expression compiled on the loop. The worst of this size searches 8 KB in 19 ms.
INLINE_PATTERN_BYTES: Final = 20_000

# --- remembered schemas ----------------------------------------------------------------

CACHED_SCHEMAS: Final = 256  # schemas kept ready
CACHED_BYTES: Final = 1024 * 1024  # of their texts; a compiled schema takes some twenty times as much

# --- the worker ------------------------------------------------------------------------

WORKERS_MAX: Final = 2  # worker processes of one checker; further checks queue
START_S: Final = 30.0  # seconds a worker may take to start; it takes 0.25 s on an idle machine
# Bytes of address space of a worker, its stack included, where the platform can bound it.
WORKER_MEMORY: Final = 2 * 1024 * 1024 * 1024
# Bytes of stack of a worker's thread: three times the need of RECURSION_MAX frames, 1.1 KB each.
WORKER_STACK: Final = 128 * 1024 * 1024
# Stack frames of a worker. The deepest value under 32 references in a row takes 64 * 32 * 4 = 8,192.
RECURSION_MAX: Final = 40_000


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
