"""The shape of a JSON text without a parse: its depth, its keys, and thousands of large exponents."""

import json
import math
from array import array
from itertools import accumulate
from typing import Final

import msgspec

_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_COLONS: Final = bytes(set(range(256)) - set(b':"'))
_PIECE: Final = 65_536  # brackets that are looked at together: a text that is too deep is so near its begin
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
# Digits, points and signs as one byte: then `count` finds large exponents, without a step for each byte.
_KINDS: Final = bytes(57 if byte in b"0123456789.+-" else 101 if byte in b"eE" else 32 for byte in range(256))
_EXPONENT: Final = b"9e999"
_EXPONENTS_MAX: Final = 1_000
_encode = msgspec.json.Encoder().encode


def keys_in(data: bytes) -> int:
    """Return the number of keys in a JSON text, which is that of its colons outside of strings."""
    return sum(map(len, _outside(data, None, _COLONS)))


def is_deeper(data: bytes, max_depth: int) -> bool:
    """Return True if lists and objects lie deeper in each other, or brackets do not match."""
    left = b"".join(_outside(data, _BRACKETS, _NO_BRACKETS))
    before = 2 * len(left)
    while left and max_depth and len(left) <= before // 2:  # else a pass costs more than it removes
        before = len(left)
        left, max_depth = left.replace(b"[]", b""), max_depth - 1
    if not left or not max_depth:
        return bool(left)
    steps, depth = array("b", left.translate(_STEPS)), 0
    for at in range(0, len(steps), _PIECE):
        depths = list(accumulate(steps[at : at + _PIECE], initial=depth))
        if min(depths) < 0 or max(depths) > max_depth:
            return True
        depth = depths[-1]
    return depth != 0


def _outside(data: bytes, table: bytes | None, without: bytes) -> list[bytes]:
    """Return the parts of a JSON text outside its strings. without: bytes to leave out, not the quote."""
    # Without escapes, a string is the text between a quote and the next one.
    if data.find(b"\\") >= 0:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return data.translate(table, without).replace(b'""', b"").split(b'"')[::2]


def has_exponents(data: bytes) -> bool:
    """Return True for JSON with so many large exponents that `read_exponents` is faster."""
    return len(data) > _EXPONENTS_MAX and data.translate(_KINDS).count(_EXPONENT) > _EXPONENTS_MAX


def read_exponents(data: bytes) -> object:
    """Decode JSON. Raises ValueError, also for numbers beyond the range of a float."""
    value = _FLOATS.decode(data.decode())
    # The encoder writes infinity as null: without a look at each number in Python.
    if _encode(value).count(b"null") != data.count(b"null"):
        return _FINITE.decode(data.decode())
    return value


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"it has the number {text:.40}, which is out of range")
    return value


_FINITE = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)
_FLOATS = json.JSONDecoder(parse_constant=_finite)
