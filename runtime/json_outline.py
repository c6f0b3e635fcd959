"""The outline of a JSON text: the depth of its brackets and the number of its keys, without a parser.

A stranger's text may have a million of them, so nothing here is done in Python for each one.
"""

from array import array
from itertools import accumulate
from typing import Final

_BRACKETS: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_COLONS: Final = bytes(set(range(256)) - set(b':"'))
_PIECE: Final = 65_536  # brackets that are looked at together: a text that is too deep is so near its begin
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")


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
