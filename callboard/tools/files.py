"""Ready tools for the files of a session: read, write, edit, list, find and search.

    from callboard.tools.files import READ_ONLY, FILE_TOOLS

    agent = Agent("coder", tools=FILE_TOOLS)
    runtime = Runtime(model=model, files=Files("project", write=["src"]))

They reach the folder of `Runtime(files=...)` and nothing else. Paths are relative to it.

Searching the files of a session: the files that match, and their lines.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from callboard.actors.protocol.errors import FileError, ToolError
from callboard.runtime.files.files import Files
from callboard.runtime.files.opening import joined, shown
from callboard.runtime.files.searching import Glob, Line, LinePattern
from callboard.runtime.files.text import Text
from callboard.runtime.files.whole_files import Entry
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.tool import tool
from callboard.tools.listing import described, fitting, lines_of, listed, numbered

PATHS_MAX: Final = 1_000
"""Entries of a list of files."""
_PLACES_MAX: Final = 10
Count = Annotated[int, Meta(ge=1)]
_FOUND_CHARS_MAX: Final = 400  # of a line that `grep` shows
_BEFORE_CHARS: Final = 200  # of these, before the first match
_SPARE_S: Final = 1.0  # seconds before the end of a call in which a search gives what it has


@tool(effect="read")
def read_file(ctx: ToolContext, path: str, offset: Count = 1, limit: Count = 2_000) -> str:
    """Read a text file. Each line stands behind its number and a tab.

    Args:
        path: The file, relative to the root of the files.
        offset: The first line, from 1.
        limit: The number of lines.
    """
    found = ctx.files.read(path)
    lines = lines_of(found.text)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolError(f"{shown(path)} has {len(lines):,} lines; offset is the first of them to read")
    kept = list(fitting(numbered(lines[offset - 1 : offset - 1 + limit], offset)))
    last = offset + len(kept) - 1
    if last < len(lines):
        kept.append(f"[lines {offset:,} to {last:,} of {len(lines):,}; go on with offset={last + 1}]")
    if not found.is_exact:
        kept.append("[not UTF-8: \ufffd stands for other bytes, and edit_file refuses the file]")
    return "\n".join(kept)


@tool(effect="idempotent")
def write_file(ctx: ToolContext, path: str, content: str) -> str:
    """Write a text file in UTF-8, in place of an old one if there is one. Folders above it are made.

    Args:
        path: The file, relative to the root of the files.
        content: The whole new text.
    """
    ctx.files.write_text(path, content)
    return f"wrote {shown(path)}: {len(lines_of(content)):,} lines, {len(content.encode()):,} bytes"


@tool(effect="write")
def edit_file(ctx: ToolContext, path: str, old_text: str, new_text: str, replace_all: bool = False) -> str:
    """Replace a text in a file by another one. It must occur exactly once, unless replace_all is true.

    Args:
        path: The file, relative to the root of the files.
        old_text: The text to replace, character for character as it stands in the file, without line numbers.
        new_text: The text in its place.
        replace_all: True replaces every occurrence.
    """
    ctx.files.check_write(path)
    found = ctx.files.read(path)
    if not found.is_exact:
        raise FileError(f"{shown(path)}: it is not UTF-8, and an edit would change other bytes", "binary")
    count = _checked_count(path, found, old_text, new_text, replace_all=replace_all)
    ctx.files.write_bytes(path, found.encoded(found.text.replace(old_text, new_text)))
    first = found.text.count("\n", 0, found.text.index(old_text)) + 1
    return (
        f"edited {shown(path)}: {count:,} {'places, the first' if count > 1 else 'place,'} at line {first:,}"
    )


@tool(effect="read")
def list_dir(ctx: ToolContext, path: str = ".") -> str:
    """List a folder: its folders with a / behind them, and its files with their bytes.

    Args:
        path: The folder, relative to the root of the files; `.` is the root.
    """
    entries = ctx.files.entries(path)
    lines = [described(entry) for entry in entries[:PATHS_MAX]]
    return listed(lines, len(entries) > len(lines), f"of {len(entries):,} entries; use glob to choose")


@tool(effect="read")
def glob(ctx: ToolContext, pattern: str, path: str = ".") -> str:
    """Find files by their paths. A pattern without a / is looked for in every folder.

    Args:
        pattern: For example `*.py`, `src/**/*.md` or `{a,b}/test_*.py`, relative to `path`.
        path: The folder to begin in.
    """
    found = Found()
    paths = [shown(entry.path) for entry in matching(ctx, found, path, pattern)]
    found.is_cut |= len(paths) > PATHS_MAX
    return listed(paths[:PATHS_MAX], found.is_cut, "and there are more; begin in a folder below")


@tool(effect="read")
def grep(
    ctx: ToolContext,
    pattern: str,
    path: str = ".",
    files: str = "**",
    ignore_case: bool = False,
    context: Annotated[int, Meta(ge=0, le=20)] = 0,
    limit: Count = 200,
) -> str:
    """Search the lines of text files for a regular expression (syntax: RE2). Binary files are passed over.

    Args:
        pattern: The regular expression, for example `def \\w+_test`.
        path: The file or folder to search in.
        files: Only files whose path in that folder matches this, for example `*.py`.
        ignore_case: True finds both cases.
        context: Lines to show before and after each one that matches.
        limit: Lines that match, at most.
    """
    wanted, found = LinePattern(pattern, ignore_case=ignore_case), Found()
    lines: list[str] = []
    for entry in matching(ctx, found, path, files):
        if limit - found.lines <= 0:
            found.is_cut = True
            break
        lines += search(ctx, entry.path, wanted, found, limit, context)
    passed = f"[passed over: {found.passed:,} binary or large files]"
    more = [passed] if found.passed else []
    return listed(lines + more, found.is_cut, "and there may be more; narrow path, files or pattern")


FILE_TOOLS: Final = (read_file, write_file, edit_file, list_dir, glob, grep)
READ_ONLY: Final = (read_file, list_dir, glob, grep)


def _checked_count(path: str, found: Text, old_text: str, new_text: str, *, replace_all: bool) -> int:
    """Return the number of places to edit. Raises ToolError with the way to a better call."""
    _refuse_no_edit(old_text, new_text)
    count = found.text.count(old_text)
    if not count:
        raise ToolError(
            f"{shown(path)} does not contain old_text{_hint(found.text, old_text)}; nothing was changed"
        )
    if count > 1 and not replace_all:
        places = ", ".join(map(str, _places(found.text, old_text)))
        raise ToolError(
            f"old_text occurs {count:,} times in {shown(path)}, at lines {places}: add lines around the one "
            "you mean, or pass replace_all=true; nothing was changed"
        )
    return count


def _refuse_no_edit(old_text: str, new_text: str) -> None:
    """Refuse an edit that changes nothing. Raises ToolError."""
    if not old_text:
        raise ToolError("old_text is empty; use write_file to write a whole file")
    if old_text == new_text:
        raise ToolError("old_text and new_text are equal: nothing would change")


def _hint(text: str, old_text: str) -> str:
    """Return a reason why a text is not found, where one can be seen."""
    if " ".join(old_text.split()) in " ".join(text.split()):
        return ", but with other spaces or line breaks"
    if old_text.casefold() in text.casefold():
        return ", but with other upper and lower case"
    return ""


def _places(text: str, part: str) -> Iterator[int]:
    place = -1
    for _ in range(_PLACES_MAX):
        place = text.find(part, place + 1)
        if place < 0:
            return
        yield text.count("\n", 0, place) + 1


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
            yield f"{shown(path)}:{line.number}:{_cut(data[line.start : line.end], line.found - line.start)}"


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
    found = {line.number: line.found - line.start for line in matches}
    for window in _windows([line.number for line in matches], context, len(texts)):
        for number in range(window.first, window.last + 1):
            mark = ":" if number in window.matches else "-"
            yield f"{shown(path)}{mark}{number}{mark}{_cut(texts[number - 1], found.get(number, 0))}"
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


def _cut(line: bytes, found: int) -> str:
    """Return a line, and of a long one the part around the byte at which its first match begins."""
    if len(line) <= 4 * _FOUND_CHARS_MAX and len(text := line.decode(errors="replace")) <= _FOUND_CHARS_MAX:
        return text.rstrip("\r")
    start = max(0, found - 4 * _BEFORE_CHARS)
    before = line[start:found].decode(errors="ignore")
    text = before[-_BEFORE_CHARS:] + line[found : found + 4 * _FOUND_CHARS_MAX].decode(errors="replace")
    first = "…" if start or len(before) > _BEFORE_CHARS else ""
    last = "…" if len(text) > _FOUND_CHARS_MAX else ""
    return first + text[:_FOUND_CHARS_MAX].rstrip("\r") + last
