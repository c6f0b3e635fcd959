"""Scripted models as generators, the answers that they get from tools, and the reports that they give.

On every turn the generator starts again and gets the answers of the conversation so far, so a model is a
pure function of the request. The value that it returns is reported; text ends the agent without a report.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Call, Reply, call, say

T = TypeVar("T")


class Line(msgspec.Struct, frozen=True, order=True):
    """A line of a file, or a place there and the reason why it counts. line: 0 for the file as a whole."""

    file: str
    line: int
    text: str


class Setting(msgspec.Struct, frozen=True):
    """One line of a value in a configuration file. key: with dots. problem: the reason if it was not read."""

    key: str
    value: str
    place: Line
    problem: str = ""


class Branch(msgspec.Struct, frozen=True):
    """A folder. files: below it, at any depth. own: right in it."""

    path: str
    files: int
    own: int


class Census(msgspec.Struct, frozen=True):
    """The files of a folder. programs: its languages without data, the most files first. is_cut: not all."""

    files: int = 0
    lines: int = 0
    languages: dict[str, int] = {}
    programs: tuple[str, ...] = ()
    is_foreign: bool = False
    is_cut: bool = False
    is_counted: bool = False


class PythonFile(msgspec.Struct, frozen=True):
    """The first names in a Python file, with their lines. style: of its tests. problem: why it has none."""

    file: str
    docstring: str = ""
    imports: dict[str, int] = {}
    style: str = ""
    tests: dict[str, int] = {}
    main_line: int = 0
    problem: str = ""


class Finding(msgspec.Struct, frozen=True):
    """One answer with its evidence: `none` for no such thing, `unknown` if these agents cannot tell."""

    answer: str = "unknown"
    basis: str = "none"
    evidence: tuple[Line, ...] = ()
    also: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Module(msgspec.Struct, frozen=True):
    """One module in a few words."""

    path: str = ""
    summary: str = "No summary."


class Modules(msgspec.Struct, frozen=True):
    """The modules that were summarised, and the paths of those that were not."""

    modules: tuple[Module, ...] = ()
    left_out: tuple[str, ...] = ()


class Depth(msgspec.Struct, frozen=True):
    """The number of diggers, and the words with which one more was refused."""

    levels: int = 0
    refused: str = ""


class Answer(msgspec.Struct, frozen=True, tag="tool_result"):
    """The answer to one call."""

    content: str
    is_error: bool = False

    def read(self, kind: type[T]) -> T:
        """Return the answer as this type; an empty value for an error, or for a text that does not fit."""
        try:
            return kind() if self.is_error else msgspec.json.decode(self.content, type=kind)
        except (msgspec.DecodeError, RecursionError):
            return kind()


Inquiry: TypeAlias = Generator[tuple[str, Sequence[Call]], Sequence[Answer], T]
"""Yields its turns: words, and calls to make at once."""


def ask(text: str, kind: type[T], calls: Sequence[Call]) -> Inquiry[list[T]]:
    """Make all calls at once, if any, and return their answers in the same order."""
    answers = (yield text, calls) if calls else ()
    return [answer.read(kind) for answer in answers]


def look(kind: type[T], tool: str, **arguments: object) -> Inquiry[T]:
    """Make one call, and return its answer."""
    return (yield from ask(f"I need {tool}.", kind, [call(tool, **arguments)]))[0]


def turn(inquiry: Callable[[str], Inquiry[msgspec.Struct | str]], request: ModelRequest) -> Reply:
    """Return the next turn of the scripted model that follows an inquiry."""
    first, *later = request.conversation
    rounds = [message["content"] for message in later if message["role"] == "user"]
    steps = inquiry(str(first["content"]))
    try:
        step = next(steps)
        while rounds:
            step = steps.send(msgspec.convert(rounds.pop(0), list[Answer]))
        return Reply(*step)
    except StopIteration as end:
        if rounds:  # an agent that is done only hears from its report
            return say(f"My report was refused: {rounds[0]}")
        if isinstance(end.value, str):
            return say(end.value)
        return Reply("I report.", [call("report_back", **msgspec.to_builtins(end.value))])


def schema_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the JSON schema of a report: exactly its fields, and evidence for an answer."""
    parts = msgspec.json.schema(kind)["$defs"]
    for part in parts.values():
        part |= {"required": list(part["properties"]), "additionalProperties": False}
    report = {**parts.pop(kind.__name__), "$defs": parts}
    if kind is Finding:
        nothing = {"properties": {"answer": {"enum": ["none", "unknown"]}, "basis": {"const": "none"}}}
        proved = {"properties": {"basis": {"not": {"const": "none"}}, "evidence": {"minItems": 1}}}
        report["anyOf"] = [nothing, proved]
    return report
