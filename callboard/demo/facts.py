"""What the tools return. The policies read their JSON back into the same structs."""

from typing import Literal

import msgspec

Kind = Literal["file", "folder", "link", "other"]
"""Of an entry of a folder; `other` is a FIFO, a socket or a device: seen, never opened."""


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a tool's answer."""


class Skipped(Fact, frozen=True):
    """Something that was not looked at, and why."""

    path: str
    why: str


class Listed(Fact, frozen=True):
    """One entry of a folder. bytes: of a file. files: how many files are below a folder, at any depth."""

    path: str
    kind: Kind
    bytes: int = 0
    files: int = 0


class Listing(Fact, frozen=True):
    """A folder's own entries. more: how many there are beyond those listed."""

    path: str
    entries: tuple[Listed, ...] = ()
    more: int = 0
    skipped: tuple[Skipped, ...] = ()
    skipped_more: int = 0
    is_cut: bool = False


class FoundFiles(Fact, frozen=True):
    """The files that a glob matches: how many, and the first of them, the shallowest first."""

    pattern: str
    count: int = 0
    paths: tuple[str, ...] = ()


class Found(Fact, frozen=True):
    """The answers of a search for files, glob by glob."""

    patterns: tuple[FoundFiles, ...] = ()
    is_cut: bool = False


class LanguageCount(Fact, frozen=True):
    """How much of one language there is. lines: zero unless lines were counted."""

    language: str
    files: int
    bytes: int
    lines: int = 0


class Census(Fact, frozen=True):
    """What a folder consists of. languages: the one with the most files first; unknown: files of none."""

    path: str
    files: int = 0
    folders: int = 0
    languages: tuple[LanguageCount, ...] = ()
    unknown: int = 0
    binary: int = 0
    links: int = 0
    others: int = 0
    skipped: tuple[Skipped, ...] = ()
    skipped_more: int = 0
    is_cut: bool = False


class TextPart(Fact, frozen=True):
    """Part of a file. next_start: where to read on, 0 at the end of the file."""

    path: str
    start: int
    text: str
    bytes: int
    next_start: int = 0


class Hit(Fact, frozen=True):
    """A line that matches."""

    path: str
    line: int
    text: str


class PatternHits(Fact, frozen=True):
    """What one pattern matches: in how many files, on how many lines, and the first of them."""

    pattern: str
    files: int = 0
    lines: int = 0
    hits: tuple[Hit, ...] = ()


class Matches(Fact, frozen=True):
    """The answers of a search in files, pattern by pattern. searched: how many files were read."""

    patterns: tuple[PatternHits, ...] = ()
    searched: int = 0
    skipped: tuple[Skipped, ...] = ()
    skipped_more: int = 0
    is_cut: bool = False


class Imported(Fact, frozen=True):
    """An import, wherever it stands in the file."""

    module: str
    line: int
    names: tuple[str, ...] = ()


class Function(Fact, frozen=True):
    """A function at the top of a module."""

    name: str
    line: int
    decorators: tuple[str, ...] = ()


class Class(Fact, frozen=True):
    """A class at the top of a module. tests: how many of its methods have names that begin with `test`."""

    name: str
    line: int
    bases: tuple[str, ...] = ()
    methods: int = 0
    tests: int = 0


class PythonFacts(Fact, frozen=True):
    """What a Python file holds.

    main_line: where it says `if __name__ == "__main__"`, or 0; main_calls: what is called there.
    examples: lines of its docstrings that begin with `>>>`. problem: why the file is no Python of this
    interpreter, in which case the rest was read line by line. is_cut: there is more than is listed.
    """

    path: str
    lines: int = 0
    docstring: str = ""
    imports: tuple[Imported, ...] = ()
    functions: tuple[Function, ...] = ()
    classes: tuple[Class, ...] = ()
    main_line: int = 0
    main_calls: tuple[str, ...] = ()
    examples: int = 0
    problem: str = ""
    is_cut: bool = False


class Setting(Fact, frozen=True):
    """One value of a configuration file. key: with dots, list items by number. line: 0 where not known."""

    key: str
    value: str
    line: int = 0


class Settings(Fact, frozen=True):
    """The values of a configuration file. more: how many there are beyond those listed."""

    path: str
    settings: tuple[Setting, ...] = ()
    more: int = 0
