"""Searches: patterns for names and for lines, in an engine of linear time (RE2), and walks over folders."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import re2

from callboard.actors.protocol.errors import FileError, ToolError
from callboard.runtime.files.whole_files import Entry
from callboard.runtime.sanitize import clean_text

PATTERN_CHARS_MAX: Final = 1_000
_MEMORY_BYTES: Final = 2_000_000  # for an expression and its automaton: some 20,000 instructions at most
_PIECE_BYTES: Final = (
    1_000_000  # lines that are searched at a time: between two pieces a search can be stopped
)
_TOKENS: Final = {"*": "[^/]*", "?": "[^/]"}
ENTRIES_MAX: Final = 100_000
"""Entries that a walk looks at."""
DEPTH_MAX: Final = 64
"""Folders within each other that a walk enters."""
SKIPPED: Final = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "__pycache__",
        "node_modules",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
    }
)
"""Names of folders that a walk does not enter, unless it begins there."""


class Line(NamedTuple):
    """A line that matches. number: from 1. start, end, found: the places of it and of its first match."""

    number: int
    start: int
    end: int
    found: int


def _compiled(pattern: str, what: str, *, is_line: bool = False, ignore_case: bool = False) -> "re2._Regexp":
    _check_length(pattern, what)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    options.never_nl = is_line
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ToolError(f"the {what} is not understood: {_words(error)} (syntax: RE2)") from None


def _check_length(pattern: str, what: str) -> None:
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ToolError(f"the {what} has {len(pattern):,} characters, more than {PATTERN_CHARS_MAX:,}")


def _words(error: Exception) -> str:
    said = error.args[0] if error.args else error
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


class LinePattern:
    """A regular expression for lines, in the syntax of RE2. Raises ToolError for another one."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        self._found = _compiled(f"(?m){pattern}", "pattern", is_line=True, ignore_case=ignore_case)

    def lines(self, data: bytes, check: Callable[[], object] = bool) -> Iterator[Line]:
        """Yield the lines that match. data: UTF-8. check: called from time to time; it may raise."""
        number, start = 1, 0
        while start < len(data):
            check()
            end = _end_of_piece(data, start)
            for first, last, found in self._in_piece(data, start, end):
                number, start = number + data.count(b"\n", start, first), first
                yield Line(number, first, last, found)
            number, start = number + data.count(b"\n", start, end), end

    def _in_piece(self, data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        while start < end:
            match = self._found.search(data, start, end)
            if match is None:
                return
            first = data.rfind(b"\n", start, match.start()) + 1 or start
            last = data.find(b"\n", match.start(), end)
            last = end if last < 0 else last
            if first < end:
                yield first, last, match.start()
            start = last + 1


def _end_of_piece(data: bytes, start: int) -> int:
    if len(data) - start <= _PIECE_BYTES:
        return len(data)
    end = data.rfind(b"\n", start, start + _PIECE_BYTES) + 1 or data.find(b"\n", start) + 1
    return end or len(data)


class Glob:
    """A glob for paths. Raises ToolError for one that is not understood."""

    def __init__(self, pattern: str) -> None:
        _check_length(pattern, "glob")  # before it is translated, piece by piece
        whole = clean_text(pattern if "/" in pattern else f"**/{pattern}")  # RE2 takes no half surrogate pair
        self._found = _compiled(f"(?s){_expression(whole)}", "glob")

    def matches(self, path: str) -> bool:
        """Return True if the whole path matches."""
        return self._found.fullmatch(os.fsencode(path)) is not None


def _expression(pattern: str) -> str:
    parts: list[str] = []
    rest, depth = pattern.removeprefix("./"), 0
    while rest:
        if rest[0] in "{,}":
            part, depth = _brace(rest[0], depth)
            rest = rest[1:]
        else:
            part, rest = _token(rest)
        parts.append(part)
    if depth:
        raise ToolError(f"the glob {pattern!r:.100} has a {{ without its }}")
    return "".join(parts)


def _brace(mark: str, depth: int) -> tuple[str, int]:
    """Return the expression of a brace or comma, and the number of braces that are open behind it."""
    if mark == "{":
        return "(?:", depth + 1
    if not depth:
        return mark, 0
    return ("|", depth) if mark == "," else (")", depth - 1)


def _token(text: str) -> tuple[str, str]:
    """Return the expression of a glob's first part, and the rest."""
    if text.startswith("**/"):
        return "(?:[^/]*/)*", text[3:]
    if text.startswith("**"):
        return "(?:.*)", text[2:]
    end = text.find("]", 2) if text[0] == "[" else -1
    if end > 0:
        inside = text[1:end].replace("\\", "\\\\").replace("[", "\\[")
        return f"[^{inside[1:]}]" if inside[0] == "!" else f"[{inside}]", text[end + 1 :]
    return _TOKENS.get(text[0]) or re2.escape(text[0]), text[1:]


class Walk:
    """The files below a folder, in the order of their paths. Links are neither followed nor listed.

    path: of the folder. is_cut: True once a walk has left something out, because a bound was reached.
    """

    def __init__(self, entries: Callable[[str], Sequence[Entry]], path: str) -> None:
        self._entries = entries
        self.path = path
        self._left = ENTRIES_MAX
        self.is_cut = False

    def __iter__(self) -> Iterator[Entry]:
        self._left, self.is_cut = ENTRIES_MAX, False
        yield from self._below(self._entries(self.path), DEPTH_MAX)

    def _below(self, entries: Sequence[Entry], depth: int) -> Iterator[Entry]:
        for entry in entries:
            if self._left <= 0:
                self.is_cut = True
                return
            self._left -= 1
            if entry.kind == "file":
                yield entry
            elif entry.kind == "folder":
                yield from self._entered(entry, depth)

    def _entered(self, folder: Entry, depth: int) -> Iterator[Entry]:
        if folder.path.rpartition("/")[2] in SKIPPED:
            return
        if not depth:
            self.is_cut = True
            return
        try:
            entries = self._entries(folder.path)
        except FileError:  # it went away, became a link, or may not be read by the user
            return
        yield from self._below(entries, depth - 1)
