"""Answers of the tools, which a policy reads back into the same structs, and reports of the agents."""

from msgspec import Struct
from msgspec.json import schema


class Line(Struct, frozen=True, order=True):
    """A line of a file, or a place there and the reason why it counts. line: 0 for the file as a whole."""

    file: str
    line: int
    text: str


class Setting(Struct, frozen=True):
    """One line of a value in a configuration file. key: with dots. line: 0 if it was not found again.

    problem: the reason if the file was not read.
    """

    file: str
    key: str
    value: str
    line: int = 0
    problem: str = ""

    @property
    def place(self) -> Line:
        """Return the place of the setting. A value is quoted only if its line is known."""
        return Line(self.file, self.line, f"{self.key} `{self.value}`" if self.line else self.key)


class Branch(Struct, frozen=True):
    """A folder. files: below it, at any depth. own: right in it."""

    path: str
    files: int
    own: int


class Census(Struct, frozen=True):
    """The files of a folder by language, the most files first. is_cut: not all were counted."""

    files: int = 0
    lines: int = 0
    languages: dict[str, int] = {}
    is_cut: bool = False
    is_counted: bool = False


class PythonFile(Struct, frozen=True):
    """The first names in a Python file, with their lines. problem: the reason if it was not parsed.

    tests: functions and plain classes that only a framework runs. test_cases: classes of unittest.
    """

    file: str
    docstring: str = ""
    imports: dict[str, int] = {}
    tests: dict[str, int] = {}
    test_cases: dict[str, int] = {}
    main_line: int = 0
    problem: str = ""


class Finding(Struct, frozen=True):
    """One answer with its evidence: `none` for no such thing, `unknown` if these agents cannot tell."""

    answer: str = "unknown"
    basis: str = "none"
    evidence: tuple[Line, ...] = ()
    also: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Module(Struct, frozen=True):
    """One module in a few words."""

    path: str = ""
    summary: str = "No summary."


class Modules(Struct, frozen=True):
    """The modules that were summarised, and the paths of those that were not."""

    modules: tuple[Module, ...] = ()
    left_out: tuple[str, ...] = ()


class Depth(Struct, frozen=True):
    """The number of diggers, and the words with which one more was refused."""

    levels: int = 0
    refused: str = ""


def schema_of(kind: type[Struct]) -> dict[str, object]:
    """Return the JSON schema of a report: exactly its fields, and evidence for an answer."""
    parts = schema(kind)["$defs"]
    for part in parts.values():
        part |= {"required": list(part["properties"]), "additionalProperties": False}
    report = {**parts.pop(kind.__name__), "$defs": parts}
    if kind is Finding:
        nothing = {"properties": {"answer": {"enum": ["none", "unknown"]}, "basis": {"const": "none"}}}
        proved = {"properties": {"basis": {"not": {"const": "none"}}, "evidence": {"minItems": 1}}}
        report["anyOf"] = [nothing, proved]
    return report


def printable(text: str) -> str:
    """Escape every character that could move a cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str, length: int = 160) -> str:
    """Return a text on one printable line, cut to a length."""
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1] + "…"
