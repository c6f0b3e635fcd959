"""The JSON schema of a function's signature, and the check of a call's arguments, which come from one struct.

The check is strict: no text for numbers, no unknown names. Only what can mean one thing is read as it was
meant (`repaired_arguments`). An error names the place, the problem and the tool's parameters, so that a model
can correct its call.
"""

import contextlib
import dataclasses
import enum
import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator

import msgspec

from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.runtime.sanitize import clean_text
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.docstrings import Models, add_models, described, models_of, read_models, readable
from callboard.runtime.tools.repaired_arguments import repaired

Function: typing.TypeAlias = Callable[..., object]
Bound: typing.TypeAlias = Callable[[], object]

_DICT = msgspec.json.Decoder(dict[str, object])
_ANYTHING = ["object", "array", "string", "number", "boolean", "null"]
_NAMED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_RECEIVERS = dict.fromkeys(("self", "cls"), "apply tool() to the bound method")


@dataclasses.dataclass(frozen=True)
class TypedSignature:
    """Arguments as keywords, checked against the function's own annotations.

    models: the parameters that pydantic reads.
    """

    name: str
    schema: dict[str, object]
    context: str
    decoder: msgspec.json.Decoder[msgspec.Struct]
    models: Models = dataclasses.field(default_factory=dict)

    def bind(self, function: Function, arguments: Json, ctx: ToolContext | None) -> Bound:
        """Bind each argument, converted to its annotation. Raises InvalidPrompt."""
        try:
            values = self._read(arguments)
        except Exception as error:  # a struct's own __post_init__ or a validator may raise anything
            values = self._read_again(arguments, error)
        if self.context:
            values[self.context] = ctx
        return functools.partial(function, **values)

    def _read(self, arguments: Json) -> dict[str, object]:
        values = msgspec.structs.asdict(self.decoder.decode(arguments))
        return values | read_models(self.models, values) if self.models else values

    def _read_again(self, arguments: Json, error: Exception) -> dict[str, object]:
        """Read arguments as they were meant, after an error. Raises InvalidPrompt with that error."""
        meant = repaired(arguments, self.schema)
        with contextlib.suppress(Exception):
            if meant is not None:
                return self._read(meant)
        raise InvalidPrompt(_correction(self, clean_text(str(error))[:500]))


@dataclasses.dataclass(frozen=True)
class DictSignature:
    """Arguments as one dict, checked for missing and forbidden names at the top of the schema only."""

    name: str
    schema: dict[str, object]
    context: str

    def bind(self, function: Function, arguments: Json, ctx: ToolContext | None) -> Bound:
        """Bind a new dict of the arguments. Raises InvalidPrompt."""
        try:
            values = _DICT.decode(repaired(arguments, self.schema) or arguments)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidPrompt(_correction(self, str(error))) from None
        if problem := next(self._problems(values), ""):
            raise InvalidPrompt(_correction(self, problem))
        extra = {self.context: ctx} if self.context else {}
        return functools.partial(function, values, **extra)

    def _problems(self, values: dict[str, object]) -> Iterator[str]:
        yield from (f"Missing argument `{name}`" for name in _required(self.schema) if name not in values)
        is_closed = self.schema.get("additionalProperties") is False
        known = self.schema.get("properties")
        if is_closed and isinstance(known, dict) and "patternProperties" not in self.schema:
            yield from (f"Unknown argument `{name:.100}`" for name in values if name not in known)


Signature: typing.TypeAlias = TypedSignature | DictSignature


def _correction(signature: Signature, problem: str) -> str:
    problem = problem.replace("Object contains unknown field", "Unknown argument")
    problem = problem.replace("Object missing required field", "Missing argument")
    takes = _takes(signature.schema)
    return f"Invalid arguments for {signature.name}: {problem}. {takes} Correct them and call it again."


def _takes(schema: dict[str, object]) -> str:
    properties, needed = schema.get("properties"), _required(schema)
    if not isinstance(properties, dict) or not properties:
        return "It takes no arguments: send {}."
    parts = [
        f"{name} ({_kind(part)}{'' if name in needed else ', optional'})" for name, part in properties.items()
    ]
    return f"It takes {', '.join(parts)}."[:1_000]


def _required(schema: dict[str, object]) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _kind(part: object) -> str:
    if not isinstance(part, dict):
        return "any"
    if isinstance(choices := part.get("enum"), list):
        return "one of " + ", ".join(repr(choice) for choice in choices[:20])
    options = part.get("anyOf")
    if isinstance(options, list):
        return " or ".join(_kind(option) for option in options[:6])
    kind = part.get("type", "object" if "$ref" in part else "any")
    return "any" if isinstance(kind, list) else str(kind)


def typed_signature(function: Function, name: str) -> TypedSignature:
    """Read the signature of a typed function. Raises InvalidAgent with the correction."""
    parameters = _parameters(function, name)
    hints = _hints(function, name)
    hints = {each.name: hints.get(each.name, each.annotation) for each in parameters}
    told = described(undecorated(function).__doc__).parameters
    contexts = [key for key, hint in hints.items() if _is_context(hint)]
    if len(contexts) > 1:
        raise InvalidAgent(f"tool {name}: {contexts[0]!r} and {contexts[1]!r} both want the ToolContext")
    taken = [(each, hints[each.name]) for each in parameters if each.name not in contexts]
    models = models_of({each.name: hint for each, hint in taken}, name)
    decoder, schema = _shape(
        [(each.name, readable(models, each.name, hint), *_default(each, hint, name)) for each, hint in taken],
        name,
    )
    for key, part in typing.cast("dict[str, dict[str, object]]", schema["properties"]).items():
        if text := _told(hints[key]) or told.get(key, ""):
            part.setdefault("description", clean_text(text))
    add_models(schema, models, name)
    return TypedSignature(name, schema, "".join(contexts), decoder, models)


def context_parameter(function: Function) -> str:
    """Return the name of the parameter that takes the ToolContext, or an empty text."""
    try:
        hints = _hints(function, "")
    except InvalidAgent:
        return ""
    return next((key for key, hint in hints.items() if _is_context(hint)), "")


def undecorated(function: Function) -> Function:
    """Return the function inside of partials."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _parameters(function: Function, name: str) -> list[inspect.Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise InvalidAgent(
            f"tool {name}: its signature cannot be read; wrap it in a typed function"
        ) from None
    for parameter in parameters:
        if parameter.kind not in _NAMED_KINDS:
            raise InvalidAgent(
                f"tool {name}: models send arguments by name, so {str(parameter)!r} cannot be filled; "
                "name every parameter, or give a ready schema with Tool(...)"
            )
        if parameter.annotation is inspect.Parameter.empty:
            advice = _RECEIVERS.get(parameter.name, "write its type")
            raise InvalidAgent(f"tool {name}: parameter {parameter.name!r} has no annotation; {advice}")
    return parameters


def return_hint(function: Function) -> object:
    """Return the type of a function's results; object if it has none, or one that cannot be resolved."""
    try:
        return _resolved(function, lambda key: key == "return").get("return", object)
    except Exception:  # results of an unknown type are checked when there is one
        return object


def _resolved(function: Function, is_wanted: Callable[[str], bool]) -> dict[str, object]:
    plain = undecorated(function)
    plain = plain if inspect.isroutine(plain) else type(plain).__call__
    plain = inspect.unwrap(plain)
    annotations = {key: hint for key, hint in inspect.get_annotations(plain).items() if is_wanted(key)}
    holder = type("holder", (), {"__annotations__": annotations})
    names = getattr(plain, "__globals__", {})
    return typing.get_type_hints(holder, globalns=names, include_extras=True)


def _hints(function: Function, name: str) -> dict[str, object]:
    try:
        return _resolved(function, lambda key: key != "return")
    except Exception as error:
        raise InvalidAgent(
            f"tool {name}: an annotation cannot be resolved ({error}); it must name something that the "
            "function's module knows when the tool is made"
        ) from None


def _is_context(hint: object) -> bool:
    while typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(hint))
    kind = typing.get_origin(hint) or hint  # of `ToolContext[Deps]` too
    return isinstance(kind, type) and issubclass(kind, ToolContext)


def _told(hint: object) -> str:
    """Return the text in Annotated[..., "text"]. msgspec itself reads `Meta(description=...)`."""
    if typing.get_origin(hint) is not typing.Annotated:
        return ""
    return next((part for part in typing.get_args(hint)[1:] if isinstance(part, str)), "")


def _default(parameter: inspect.Parameter, hint: object, name: str) -> tuple[object, ...]:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return ()
    try:
        checked = msgspec.convert(msgspec.to_builtins(value), hint)
    except (msgspec.ValidationError, TypeError) as error:
        if value is None and isinstance(error, msgspec.ValidationError):
            raise InvalidAgent(
                f"tool {name}: {parameter.name!r} defaults to None, which its type does not allow; add | None"
            ) from None
        checked = msgspec.UNSET
    is_plain = checked == value and isinstance(value, str | int | float | enum.Enum | None)
    if is_plain and not (isinstance(value, float) and math.isinf(value)):
        return (value,)
    return (msgspec.field(default_factory=lambda: value),)


def _shape(
    fields: list[tuple[object, ...]], name: str
) -> tuple[msgspec.json.Decoder[msgspec.Struct], dict[str, object]]:
    """Return a decoder of these fields, and their schema with all types that they refer to in `$defs`."""
    given = typing.cast("list[tuple[str, type]]", fields)
    try:
        shape = msgspec.defstruct(f"arguments of {name}", given, kw_only=True, forbid_unknown_fields=True)
        (top,), parts = msgspec.json.schema_components((shape,), schema_hook=_anything)
        decoder = msgspec.json.Decoder(shape)
    except Exception as error:  # of msgspec, or of the types' own code
        alone = fields if len(fields) > 1 else []
        for field in alone:
            _shape([field], name)  # raises for the one at fault, with its name
        who = "the parameters together have" if alone else f"parameter {fields[0][0]!r} has"
        reason = str(error).replace("\n", " ")[:400]
        raise InvalidAgent(
            f"tool {name}: {who} a type that JSON cannot represent; use text, numbers, bools, lists, dicts, "
            f"Literal, dataclasses, TypedDicts, msgspec Structs or pydantic models ({reason})"
        ) from None
    schema: dict[str, object] = parts.pop(top["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    if parts:
        schema["$defs"] = parts
    return decoder, schema


def _anything(kind: type) -> dict[str, object]:
    if kind is object:
        return {"type": _ANYTHING}
    raise TypeError(f"{kind!r} has no form in JSON")
