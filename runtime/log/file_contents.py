"""The bytes of versions of files, as `ToolReturned.contents` has them.

    {"digest": SHA-256 in hex, "base": that of another version, or "", "data": base64 of zlib}

Without a base the data are the bytes. With one they are a difference: a JSON list of steps and a line break,
and behind it the new bytes. A step `[start, length]` copies from the base, and `[length]` takes new bytes.

Each is JSON of an event, so the store keeps it once by content, encrypts it, shares it with forks and removes
it with the last session that has it.
"""

import binascii
import zlib
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.immutable import Json

STEPS_MAX: Final = 16
"""Differences between a version and the whole one that they begin with. Each takes a millisecond to read."""

VERSION_BYTES_MAX: Final = 10_000_000
"""Bytes of a version that is kept."""

_PLACES_MAX: Final = 64  # of equal lines that are looked at: a file of empty lines must not take its square
_LEVEL: Final = 6
_SURE: Final = 10  # times as short as the bytes: no source text becomes as short by itself


class Base(NamedTuple):
    """A version that the log has."""

    digest: str
    data: bytes


class _Content(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    digest: str
    data: bytes  # base64 in JSON
    base: str = ""


class Packed(NamedTuple):
    """A version on its way to the log. is_difference: from its base."""

    content: Json
    is_difference: bool


def digest_of(data: bytes) -> str:
    """Return the digest by which a version is named."""
    return sha256(data).hexdigest()


def packed(digest: str, data: bytes, base: Base | None = None) -> Packed:
    """Return a version for the log: as a difference from its base, if that is smaller."""
    part = None if base is None else zlib.compress(_difference(base.data, data), _LEVEL)
    if base is not None and part is not None and len(part) * _SURE < len(data):
        return Packed(_json(_Content(digest, part, base.digest)), True)
    whole = zlib.compress(data, _LEVEL)
    if base is not None and part is not None and len(part) < len(whole):
        return Packed(_json(_Content(digest, part, base.digest)), True)
    return Packed(_json(_Content(digest, whole)), False)


def _json(content: _Content) -> Json:
    return msgspec.Raw(msgspec.json.encode(content))


def _difference(old: bytes, new: bytes) -> bytes:
    """Return the steps from an old version to a new one, by lines, with the new bytes behind them."""
    start = _common(old, new)
    room = min(len(old), len(new)) - start
    end = _common(old[len(old) - room :][::-1], new[len(new) - room :][::-1]) if room else 0
    steps = [[0, start]] if start else []
    parts: list[bytes] = []
    _add_lines(steps, parts, old[start : len(old) - end], new[start : len(new) - end], start)
    if end:
        steps.append([len(old) - end, end])
    return msgspec.json.encode(steps) + b"\n" + b"".join(parts)


def _common(one: bytes, other: bytes) -> int:
    """Return the number of equal bytes at the beginning of both."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # by halves: a comparison of slices is done in C
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _add_lines(steps: list[list[int]], parts: list[bytes], old: bytes, new: bytes, at: int) -> None:
    """Add the steps from some old lines to new ones. at: the place of the old ones in their file."""
    places: dict[bytes, list[int]] = {}
    for line in old.splitlines(keepends=True):
        known = places.setdefault(line, [])
        if len(known) < _PLACES_MAX:
            known.append(at)
        at += len(line)
    expected = 0
    for line in new.splitlines(keepends=True):
        place = _nearest(places.get(line), expected)
        if place is None:
            parts.append(line)
            _extend(steps, [len(line)])
        else:
            _extend(steps, [place, len(line)])
            expected = place + len(line)


def _nearest(places: list[int] | None, expected: int) -> int | None:
    """Return the first of some places that is not before the expected one, else the last; None for none."""
    if not places:
        return None
    found = bisect_left(places, expected)
    return places[min(found, len(places) - 1)]


def _extend(steps: list[list[int]], step: list[int]) -> None:
    """Add a step, or make the last one longer."""
    last = steps[-1] if steps else None
    if last is not None and len(last) == len(step) and (len(step) == 1 or last[0] + last[1] == step[0]):
        last[-1] += step[-1]
    else:
        steps.append(step)


class Contents:
    """The bytes of the versions of a session, by digest. Add the contents of its answers in any order."""

    def __init__(self, contents: Iterable[Json] = ()) -> None:
        self._unread = deque(contents)
        self._known: dict[str, _Content] = {}

    def add(self, contents: Iterable[Json]) -> None:
        """Add the contents of an answer."""
        self._unread.extend(contents)

    def read(self, digest: str) -> bytes:
        """Return the bytes of a version. Raises CorruptLog if the log does not have them, or has others."""
        known, wanted = self._index(), digest
        steps: list[_Content] = []
        while (content := known.get(wanted)) is not None and content.base and len(steps) <= STEPS_MAX:
            steps.append(content)
            wanted = content.base
        if content is None or content.base:
            raise CorruptLog(
                f"the log does not have the bytes of version {digest[:16]}; restore a copy of it"
            )
        try:
            data = _unzipped(content.data)
            for step in reversed(steps):
                data = _applied(data, _unzipped(step.data))
        except (zlib.error, ValueError, IndexError, msgspec.MsgspecError) as error:
            raise CorruptLog(f"version {digest[:16]} of a file is damaged: {error}") from None
        if digest_of(data) != digest:
            raise CorruptLog(f"version {digest[:16]} of a file has other bytes; restore a copy of the log")
        return data

    def _index(self) -> Mapping[str, _Content]:
        while self._unread:
            one = self._unread.popleft()
            try:
                content = msgspec.json.decode(one, type=_Content)
            except (msgspec.MsgspecError, binascii.Error) as error:
                raise CorruptLog(f"the content of a version is damaged: {error}") from None
            self._known.setdefault(content.digest, content)
        return self._known


def _unzipped(data: bytes) -> bytes:
    # Limited, because a log may come from strangers.
    unzip = zlib.decompressobj()
    found = unzip.decompress(data, 3 * VERSION_BYTES_MAX)
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError("it is longer than any version")
    return found


def _applied(base: bytes, difference: bytes) -> bytes:
    """Return the version that a difference makes of its base. Raises ValueError."""
    head, _, new = difference.partition(b"\n")
    parts: list[bytes] = []
    at = size = 0
    for step in msgspec.json.decode(head, type=list[list[int]]):
        start, length = step if len(step) == 2 else (at, step[0])
        source = base if len(step) == 2 else new
        size += length
        if min(start, length) < 0 or start + length > len(source) or size > VERSION_BYTES_MAX:
            raise ValueError("a step leads out of its base")
        parts.append(source[start : start + length])
        at += length if len(step) == 1 else 0
    return b"".join(parts)
