"""Forms on the terminal: one question for each field, with its type, choices and default."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.tools.input_forms import Form

Ask: TypeAlias = Callable[[str, bool], Awaitable[str]]
"""Shows a prompt and reads a line, without echo for a secret; "" without a line break at the end of input."""

CHARS_MAX: Final = 400
_BOOLEANS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_NUMBERS: Final[Mapping[str, tuple[type, ...]]] = MappingProxyType(
    {"integer": (int,), "number": (int, float)}
)
"""Kind of a field -> the Python types of its numbers. `bool` is not one of them."""
_KEYS: Final = ("oneOf", "anyOf")


class InputEnded(Exception):
    """The end of the input before the form was filled in."""


async def filled(forms: Sequence[Form], ask: Ask) -> dict[str, object]:
    """Ask for the fields of forms. Return the values by form and field. Raises InputEnded.

    An empty line takes the default, or leaves out a field that needs no value.
    """
    values: dict[str, object] = {}
    for form in forms:
        given = values[form.name] = dict[str, object]()
        for name, field in form.fields.items():
            talk(_described(form, name, field))
            answer = await _answer(form, name, field, ask)
            if answer is not None:
                given[name] = answer
    return {name: given for name, given in values.items() if given}


async def _answer(form: Form, name: str, field: Mapping[str, object], ask: Ask) -> object:
    """Ask for one field until the answer fits. Return None for a field that is left out."""
    while True:
        line = await ask(f"  {safe_line(name, CHARS_MAX)}: ", name in form.secrets)
        if not line.endswith("\n"):
            raise InputEnded
        text = line.strip()
        if not text and "default" in field:
            default: object = field["default"]
            return default
        if not text and name not in form.required:
            return None
        try:
            return value_of(text, field)
        except ValueError as error:
            talk(f"  {safe_line(str(error), CHARS_MAX)}")


def _described(form: Form, name: str, field: Mapping[str, object]) -> str:
    """Return the line above the question for a field. Its text is a stranger's."""
    marks = [str(field.get("type", "text"))]
    marks.append("required" if name in form.required else "may be empty")
    marks += ["secret, not shown"] * (name in form.secrets)
    if "default" in field and name not in form.secrets:
        marks.append(f"default {field['default']}")
    about = field.get("title") or name
    more = f": {field['description']}" if field.get("description") else ""
    lines = [safe_line(f"{about} ({', '.join(marks)}){more}", CHARS_MAX)]
    lines += [safe_line(f"  {at} = {label}", CHARS_MAX) for at, (_, label) in enumerate(choices_of(field), 1)]
    if field.get("type") == "array":
        lines.append("  several: with commas between them")
    return "\n".join(lines)


def choices_of(field: Mapping[str, Any]) -> list[tuple[object, str]]:
    """Return the values that a field may have, with their labels; none for any."""
    field = field.get("items") or {} if field.get("type") == "array" else field
    for key in _KEYS:
        if options := [one for one in field.get(key) or () if isinstance(one, dict) and "const" in one]:
            return [(one["const"], str(one.get("title", one["const"]))) for one in options]
    values = field.get("enum") or []
    names = field.get("enumNames") or values
    return [(value, str(name)) for value, name in zip(values, names, strict=False)]


def value_of(text: str, field: Mapping[str, Any]) -> object:
    """Return the value of a field that a person typed. Raises ValueError with the reason."""
    if field.get("type") == "array" and not text.startswith("["):
        items = field.get("items") or {}
        return [value_of(part.strip(), items) for part in text.split(",")]
    if choices := choices_of(field):
        return _chosen(text, choices)
    match field.get("type"):
        case "boolean":
            if text.lower() not in _BOOLEANS:
                raise ValueError("answer yes or no")
            return _BOOLEANS[text.lower()]
        case "integer" | "number" | "array" | "object" | "null" as kind:
            return _parsed(text, kind)
        case _:
            return text


def _chosen(text: str, choices: Sequence[tuple[object, str]]) -> object:
    for value, label in choices:
        if text in (str(value), label):
            return value
    if text.isdecimal() and 0 < int(text) <= len(choices):
        return choices[int(text) - 1][0]
    raise ValueError(f"choose a number from 1 to {len(choices)}, or one of the choices")


def _parsed(text: str, kind: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(f"{text!r:.40} is not of type {kind}") from None
    if type(value) not in _NUMBERS.get(kind, (type(value),)):
        raise ValueError(f"{text!r:.40} is not of type {kind}")
    return value
