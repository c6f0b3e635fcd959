"""Large values: tell them from small ones, and weigh all their parts in one pass of C.

A call of Python for each of a million parts would hold the event loop for a second.

The shape of a JSON text without a parse: its depth, its keys, and thousands of large exponents.
"""

import gc
import json
import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import msgspec

LARGE: Final = 2_000
"""Parts of a value that has many."""

_SCALARS: Final = frozenset((str, int, float, bool, type(None), bytes))
_LISTS: Final = frozenset((list, tuple, set, frozenset))
_PLAIN: Final = frozenset((str, int, float, bool, type(None), list, tuple, dict))
_CODE: Final = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)


def is_large(value: object, parts_max: int = LARGE) -> bool:
    """Return True for a value of more parts, for one whose number is not known, and for iterators."""
    if type(value) in _SCALARS:
        return False
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for each in level:
            kind = type(each)
            if kind in _SCALARS:
                continue
            if kind is dict or kind in _LISTS:
                parts_max -= len(each)
                if parts_max < 0:
                    return True
                below += each.values() if kind is dict else each
            elif hasattr(kind, "__next__"):
                return True
            else:
                parts = _parts(each)
                parts_max -= max(len(parts), _length(each))
                if parts_max < 0:
                    return True
                below += parts
        level = below
    return False


def _parts(value: object) -> list[object]:
    """Return the objects that an object holds."""
    return [part for part in gc.get_referents(value) if not isinstance(part, _CODE)]


def _length(value: Any) -> int:
    """Return the length of an array, a frame or a text of another type; 0 for a value that has none."""
    try:
        return len(value)
    except Exception:
        return 0


def weighed(value: object, depth: int, budget: int) -> int | None:
    """Return the rest of a budget of bytes after plain lists, dicts, texts, numbers, flags and None.

    Negative for a value that has about as many bytes as the budget, or more. None for one that has other
    parts, numbers that are not finite, or keys that are not text, or is deeper than `depth`.
    """
    level: list[Any] = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds <= _PLAIN:
            return None
        budget -= _bytes_of(level, kinds)
        if float in kinds and not all(map(math.isfinite, _only(level, kinds, float))):
            return None
        dicts = _only(level, kinds, dict)
        lists = [*_only(level, kinds, list), *_only(level, kinds, tuple)]
        depth -= bool(lists or dicts)
        # Before they are listed: parts that a value has a thousand times each multiply at every level.
        budget -= sum(map(len, lists)) + sum(map(len, dicts))
        if depth < 0:
            return None
        if budget < 0:
            return -1
        keys = list(chain.from_iterable(dicts))
        if keys and set(map(type, keys)) != {str}:
            return None
        budget -= sum(map(len, keys))
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
    return max(budget, -1)


def _only(level: list[Any], kinds: set[type], kind: type) -> list[Any]:
    """Return the parts of a kind."""
    if kind not in kinds:
        return []
    return level if len(kinds) == 1 else [part for part in level if type(part) is kind]


def _bytes_of(level: list[object], kinds: set[type]) -> int:
    """Return about as many bytes as the texts and numbers of a level have."""
    return (
        sum(map(len, _only(level, kinds, str)))
        + (sum(map(int.bit_length, _only(level, kinds, int))) >> 2)
        + 3 * len(_only(level, kinds, float))
    )


@contextmanager
def uncollected() -> Iterator[None]:
    """Make a large value that is soon let go without the collector, which would walk through it and the heap.

    Code that has turned the collector off itself finds it off afterwards.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


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
