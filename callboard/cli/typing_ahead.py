"""The input of a person: lines while agents work, and forms.

Lines that a person types while agents work: words for the host, or else the next prompts.

Rules
  - A line goes to the host as words (`Session.tell`). The host reads them in its next request.
  - A host that cannot hear, for example because it has just said its last word, leaves the line to the next
    ask. Nothing that was typed is lost, also no line that ends without a line break.
  - A command of the chat, such as `/quit`, is no words: it waits for the end of the ask.

Forms on the terminal: one question for each field, with its type, choices and default.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Self, TypeAlias

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.errors import CallboardError, InvalidPrompt
from callboard.actors.protocol.immutable import JsonObject
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import Form

QUIT: Final = "/quit"
COMMANDS: Final = frozenset({"/help", "/tree", QUIT})
"""The lines that the chat handles itself."""


class TypingAhead:
    """Reads the terminal while an ask runs. kept: the lines that the host did not hear."""

    def __init__(self, session: Session, kept: list[str]) -> None:
        self.kept = kept
        self._session = session
        self._rest = b""
        self._told: set[asyncio.Task[None]] = set()
        self._descriptor = sys.stdin.fileno()

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop reading, and keep what the host has not heard by the end of its ask."""
        self.stop()
        await asyncio.gather(*self._told)
        if line := self._rest.decode("utf-8", "replace").strip():
            self.kept.append(line)

    def start(self) -> None:
        """Read lines from now on."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        """Leave the terminal to others."""
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        # Without buffering: a line that stays in Python's buffer would not wake the loop again.
        data = os.read(self._descriptor, 65_536)
        if not data:
            self.stop()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.take(line.decode("utf-8", "replace").strip())

    def take(self, line: str) -> None:
        """Tell the host a line."""
        if line in COMMANDS:
            self.kept.append(line)
            talk(f"[{line} waits for the end of this ask]")
        elif line:
            task = asyncio.get_running_loop().create_task(self._tell(line))
            self._told.add(task)
            task.add_done_callback(self._told.discard)

    async def _tell(self, line: str) -> None:
        try:
            turn = await self._session.tell(HOST, line)
        except InvalidPrompt as error:
            talk(f"[{safe_line(str(error), 300)}]")
        except CallboardError:
            self.kept.append(line)
            talk("[the host cannot read this now; it is kept as the next prompt]")
        else:
            talk(f"[the host reads it in turn {turn}]")


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


async def _answer(form: Form, name: str, field: JsonObject, ask: Ask) -> object:
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


def _described(form: Form, name: str, field: JsonObject) -> str:
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


def choices_of(field: JsonObject) -> list[tuple[object, str]]:
    """Return the values that a field may have, with their labels; none for any."""
    field = field.get("items") or {} if field.get("type") == "array" else field
    for key in _KEYS:
        if options := [one for one in field.get(key) or () if isinstance(one, dict) and "const" in one]:
            return [(one["const"], str(one.get("title", one["const"]))) for one in options]
    values = field.get("enum") or []
    names = field.get("enumNames") or values
    return [(value, str(name)) for value, name in zip(values, names, strict=False)]


def value_of(text: str, field: JsonObject) -> object:
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
