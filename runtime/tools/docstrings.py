"""The parameters of functions, beside their annotations.

Summary and parameters from a docstring in Google, NumPy or reST style.

A docstring in another style has a summary and no parameters. It is never an error.

Parameters whose types belong to pydantic: models, lists of models, dataclasses with a model inside.

msgspec leaves such an argument as it is, and pydantic reads it with all its validators.
"""

import inspect
import re
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, MissingExtra
from callboard.runtime.schemas.output_types import pydantic_form

if TYPE_CHECKING:
    from callboard.runtime.schemas.pydantic_types import PydanticForm


_SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Other Parameters)\s*:?$")
_HEADING = re.compile(
    r"(Args|Arguments|Params|(Other )?Parameters|Returns?|Yields?|Raises|Examples?|Notes?|See Also|Attributes"
    r"|Warnings?|Warns|References)\s*:?$"
)
_UNDERLINE = re.compile(r"-{3,}$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")
_REST_ENTRY = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Described(NamedTuple):
    """A docstring's content. summary: its first paragraph, on one line. parameters: their texts by name."""

    summary: str
    parameters: dict[str, str]


def described(docstring: str | None) -> Described:
    """Read a docstring.

    >>> described("Add.\\n\\nArgs:\\n    a: The one.\\n    b (int): The\\n        other.")
    Described(summary='Add.', parameters={'a': 'The one.', 'b': 'The other.'})
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters = {name: text for name, text in _entries(lines) if text}
    return Described(_summary(lines), parameters)


def _summary(lines: list[str]) -> str:
    paragraph = []
    for line in lines:
        if not line.strip() or _HEADING.match(line) or line.startswith(":"):
            break
        paragraph.append(line.strip())
    return " ".join(paragraph)


def _entries(lines: list[str]) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if found := _REST_ENTRY.match(line):
            yield found[1], _joined(found[2], lines[at + 1 :], 0)
        elif _SECTION.match(line):
            is_numpy = _is_underlined(lines, at)
            entry = _NUMPY_ENTRY if is_numpy else _GOOGLE_ENTRY
            yield from _section(lines[at + 1 + is_numpy :], entry)


def _section(lines: list[str], entry: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the entries of one section, which share the indentation of its first line."""
    first = next((line for line in lines if line.strip()), "")
    indent = _indent(first)
    for at, line in enumerate(lines):
        if line.strip() and (_indent(line) < indent or _starts_section(lines, at)):
            return
        if _indent(line) == indent and (found := entry.match(line.strip())):
            start = found[2] if entry is _GOOGLE_ENTRY else ""
            yield found[1], _joined(start, lines[at + 1 :], indent)


def _starts_section(lines: list[str], at: int) -> bool:
    return _is_underlined(lines, at) or (_indent(lines[at]) == 0 and _HEADING.match(lines[at]) is not None)


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and _UNDERLINE.match(lines[at + 1].strip()) is not None


def _joined(start: str, following: list[str], indent: int) -> str:
    """Join a text and the lines after it that are indented more than its entry."""
    parts = [start.strip()]
    for line in following:
        if not line.strip() or _indent(line) <= indent:
            break
        parts.append(line.strip())
    return " ".join(part for part in parts if part)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


Models: TypeAlias = "Mapping[str, PydanticForm]"
"""The forms of such parameters, by name."""


def models_of(hints: Mapping[str, object], tool: str) -> Models:
    """Return the parameters that pydantic reads. Raises InvalidAgent for a type that it cannot build."""
    found = {}
    for name, hint in hints.items():
        try:
            form = pydantic_form(hint)
        except MissingExtra:
            raise
        except Exception as error:  # of pydantic, or of the type's own code
            raise _no_json(tool, name, error) from None
        if form is not None:
            found[name] = form
    return found


def readable(models: Models, name: str, hint: object) -> object:
    """Return the type by which msgspec reads an argument."""
    return msgspec.Raw if name in models else hint


def add_models(schema: dict[str, object], models: Models, tool: str) -> None:
    """Add the parameters of pydantic to a tool's schema. Raises InvalidAgent where JSON cannot carry one."""
    properties = typing.cast("dict[str, dict[str, object]]", schema["properties"])
    known = typing.cast("dict[str, object]", schema.get("$defs", {}))
    for name, form in models.items():
        try:
            part = form.schema()
        except Exception as error:
            raise _no_json(tool, name, error) from None
        part, definitions = _apart(part, known, name)
        known |= definitions
        properties[name] = {**part, **properties[name]}  # a description of the tool's author wins
    if known:
        schema["$defs"] = known


def _apart(
    part: dict[str, object], known: Mapping[str, object], name: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Return a schema and its definitions. One that is known as something else gets another name."""
    definitions = typing.cast("dict[str, object]", part.pop("$defs", {}))
    taken = {key: f"{key}_{name}" for key, each in definitions.items() if known.get(key, each) != each}
    text = msgspec.json.encode((part, {taken.get(key, key): each for key, each in definitions.items()}))
    for key, other in taken.items():
        text = text.replace(_reference(key), _reference(other))
    return msgspec.json.decode(text, type=tuple[dict[str, object], dict[str, object]])


def _reference(name: str) -> bytes:
    return msgspec.json.encode(f"#/$defs/{name}")


def read_models(models: Models, values: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments that pydantic reads. Raises ValueError with the words of its validators."""
    return {name: _read(name, models[name], values[name]) for name in models}


def _read(name: str, form: "PydanticForm", value: object) -> object:
    if not isinstance(value, msgspec.Raw):  # the parameter's default
        return value
    read, problems = form.read(bytes(value))
    if problems:
        words = (f"{each.message} - at `$.{name}{each.path.replace('/', '.')}`" for each in problems)
        raise ValueError("; ".join(words))
    return read


def _no_json(tool: str, name: str, error: Exception) -> InvalidAgent:
    reason = str(error).partition("\n")[0][:400]
    return InvalidAgent(f"tool {tool}: parameter {name!r} has a type that JSON cannot carry ({reason})")
