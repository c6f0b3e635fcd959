"""Parameters whose types belong to pydantic: models, lists of models, dataclasses with a model inside.

msgspec leaves such an argument as it is, and pydantic reads it with all its validators.
"""

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, MissingExtra
from callboard.runtime.schemas.output_types import pydantic_form

if TYPE_CHECKING:
    from callboard.runtime.schemas.pydantic_types import PydanticForm

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
