"""Searching the files of a session: the files that match, and their lines."""

import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import FileError
from callboard.runtime.files.files import Files
from callboard.runtime.files.paths import joined, shown
from callboard.runtime.files.reading import Entry
from callboard.runtime.files.searching import Glob, Line, LinePattern
from callboard.runtime.tools.context import ToolContext

_FOUND_CHARS_MAX: Final = 400  # of a line that `grep` shows
_SPARE_S: Final = 1.0  # seconds before the end of a call in which a search gives what it has


class Found:
    """The state of a search. lines: that matched. passed: files that were not searched."""

    def __init__(self) -> None:
        self.lines = 0
        self.passed = 0
        self.is_cut = False


class _Window(NamedTuple):
    """Lines of a file to show, from `first` to `last`. matches: the numbers of those that match."""

    first: int
    last: int
    matches: frozenset[int]


def matching(ctx: ToolContext, found: Found, path: str, pattern: str) -> Iterator[Entry]:
    """Yield the files below a folder whose path in it matches; a file itself."""
    wanted, walk = Glob(pattern), ctx.files.walk(path)
    start = len(joined(walk.path, ""))
    try:
        for entry in _in_time(ctx, found, walk):
            if wanted.matches(entry.path[start:]):
                yield entry
    except FileError:
        if not _is_file(ctx.files, path):
            raise
        yield Entry(walk.path, "file", 0)
    found.is_cut |= walk.is_cut


def _in_time(ctx: ToolContext, found: Found, entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        ctx.raise_if_cancelled()
        if _is_late(ctx):
            found.is_cut = True
            return
        yield entry


def _is_file(files: Files, path: str) -> bool:
    try:
        files.read_bytes(path)
    except FileError as error:
        return error.reason == "large"
    return True


def _is_late(ctx: ToolContext) -> bool:
    return ctx.deadline is not None and time.monotonic() > ctx.deadline - _SPARE_S


def search(
    ctx: ToolContext, path: str, wanted: LinePattern, found: Found, limit: int, context: int
) -> Iterator[str]:
    """Yield the lines of a file that match, as they are shown. found: counts them."""
    try:
        data = ctx.files.read(path).text.encode()
    except FileError:
        found.passed += 1
        return
    matches = list(_matches(ctx, data, wanted, found, limit))
    if context:
        yield from _with_context(path, data, matches, context)
    else:
        for line in matches:
            yield f"{shown(path)}:{line.number}:{_cut(data[line.start : line.end])}"


def _matches(ctx: ToolContext, data: bytes, wanted: LinePattern, found: Found, limit: int) -> Iterator[Line]:
    for line in wanted.lines(data, ctx.raise_if_cancelled):
        if found.lines >= limit or _is_late(ctx):
            found.is_cut = True
            return
        found.lines += 1
        yield line


def _with_context(path: str, data: bytes, matches: list[Line], context: int) -> Iterator[str]:
    """Yield the lines around each match, `:` behind the number of a match and `-` behind that of another."""
    texts = data.removesuffix(b"\n").split(b"\n")
    for window in _windows([line.number for line in matches], context, len(texts)):
        for number in range(window.first, window.last + 1):
            mark = ":" if number in window.matches else "-"
            yield f"{shown(path)}{mark}{number}{mark}{_cut(texts[number - 1])}"
        yield "--"


def _windows(numbers: list[int], context: int, count: int) -> list[_Window]:
    found: list[_Window] = []
    for number in numbers:
        first, last = max(1, number - context), min(count, number + context)
        if found and first <= found[-1].last + 1:
            found[-1] = _Window(found[-1].first, last, found[-1].matches | {number})
        else:
            found.append(_Window(first, last, frozenset((number,))))
    return found


def _cut(line: bytes) -> str:
    text = line[: 4 * _FOUND_CHARS_MAX].decode(errors="replace").rstrip("\r")
    return text if len(text) <= _FOUND_CHARS_MAX else text[:_FOUND_CHARS_MAX] + "…"
