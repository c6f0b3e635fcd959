"""Answers of the tools. A policy reads their JSON back into the same structs."""

from msgspec import Struct


class Line(Struct, frozen=True):
    """A line of a file, or a place there and the reason why it counts. line: 0 for the file as a whole."""

    file: str
    line: int
    text: str


class Setting(Struct, frozen=True):
    """One line of a value in a configuration file. key: with dots. line: 0 if it was not found again."""

    file: str
    key: str
    value: str
    line: int = 0


class Entry(Struct, frozen=True):
    """One entry of a folder. files: how many files are below a folder, at any depth."""

    path: str
    kind: str
    files: int = 0


class Census(Struct, frozen=True):
    """The files of a folder by language, the most files first. is_cut: not all were counted."""

    files: int = 0
    lines: int = 0
    languages: dict[str, int] = {}
    is_cut: bool = False
    is_counted: bool = False


class PythonFile(Struct, frozen=True):
    """The first names in a Python file, with their lines. problem: why it was not parsed, else empty.

    tests: functions and plain classes that only a framework runs. test_cases: classes of unittest.
    """

    file: str
    docstring: str = ""
    imports: dict[str, int] = {}
    definitions: dict[str, int] = {}
    tests: dict[str, int] = {}
    test_cases: dict[str, int] = {}
    main_line: int = 0
    problem: str = ""
