"""The arguments of a tool call, checked and bound to the tool's function.

The check is strict: no text for numbers, no unknown names. An error names the place, the problem and the
tool's parameters, so that a model can correct its call.
"""

import functools
from collections.abc import Callable
from typing import Protocol, TypeAlias

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import clean_text
from callboard.runtime.tools.context import ToolContext

Function: TypeAlias = Callable[..., object]
Bound: TypeAlias = Callable[[], object]

_DICT = msgspec.json.Decoder(dict[str, object])


class Signature(Protocol):
    """A way to check a model's arguments and to pass them to the function."""

    def bind(self, function: Function, arguments: Json, ctx: ToolContext) -> Bound:
        """Bind the arguments to the function. Raises InvalidPrompt with a text for the model."""
        ...


class TypedSignature:
    """Arguments as keywords, checked against the function's own annotations."""

    def __init__(
        self, name: str, shape: type[msgspec.Struct], schema: dict[str, object], context: str
    ) -> None:
        self.schema = schema
        self._name = name
        self._decoder = msgspec.json.Decoder(shape)
        self._context = context

    def bind(self, function: Function, arguments: Json, ctx: ToolContext) -> Bound:
        """Bind each argument, converted to its annotation. Raises InvalidPrompt."""
        try:
            values = msgspec.structs.asdict(self._decoder.decode(arguments))
        except Exception as error:  # a struct's own __post_init__ may raise anything
            raise InvalidPrompt(_correction(self._name, clean_text(str(error))[:500], self.schema)) from None
        if self._context:
            values[self._context] = ctx
        return functools.partial(function, **values)


class DictSignature:
    """Arguments as one dict, checked for missing and forbidden names at the top of the schema only."""

    def __init__(self, name: str, schema: dict[str, object], context: str) -> None:
        self._name = name
        self._schema = schema
        self._context = context
        required, properties = schema.get("required"), schema.get("properties")
        names = required if isinstance(required, list) else []
        self._required = tuple(name for name in names if isinstance(name, str))
        is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        self._known = frozenset(properties) if is_closed and isinstance(properties, dict) else None

    def bind(self, function: Function, arguments: Json, ctx: ToolContext) -> Bound:
        """Bind a new dict of the arguments. Raises InvalidPrompt."""
        try:
            values = _DICT.decode(arguments)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidPrompt(_correction(self._name, str(error), self._schema)) from None
        missing = next((key for key in self._required if key not in values), None)
        unknown = next((key for key in values if self._known is not None and key not in self._known), None)
        if missing is not None:
            raise InvalidPrompt(_correction(self._name, f"Missing argument `{missing}`", self._schema))
        if unknown is not None:
            raise InvalidPrompt(_correction(self._name, f"Unknown argument `{unknown:.100}`", self._schema))
        extra = {self._context: ctx} if self._context else {}
        return functools.partial(function, values, **extra)


def _correction(name: str, problem: str, schema: dict[str, object]) -> str:
    """Return the error with which a model can correct its call."""
    problem = problem.replace("Object contains unknown field", "Unknown argument")
    problem = problem.replace("Object missing required field", "Missing argument")
    return f"Invalid arguments for {name}: {problem}. {_takes(schema)} Correct them and call it again."


def _takes(schema: dict[str, object]) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not properties:
        return "It takes no arguments: send {}."
    needed = required if isinstance(required, list) else []
    parts = [
        f"{name} ({_kind(part)}{'' if name in needed else ', optional'})" for name, part in properties.items()
    ]
    return f"It takes {', '.join(parts)}."[:1_000]


def _kind(part: object) -> str:
    """Return the type of a property in a few words."""
    if not isinstance(part, dict):
        return "any"
    if isinstance(choices := part.get("enum"), list):
        return "one of " + ", ".join(repr(choice) for choice in choices[:20])
    options = part.get("anyOf")
    if isinstance(options, list):
        return " or ".join(_kind(option) for option in options[:6])
    kind = part.get("type", "object" if "$ref" in part else "any")
    return "any" if isinstance(kind, list) else str(kind)
