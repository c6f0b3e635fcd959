"""Result types: one that cannot become JSON is refused when the tool is made, before it can have an effect.

A result without an annotation, or of a type that says nothing (`Any`, `object`, a protocol), is checked when
there is one.
"""

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Iterable

import msgspec

from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.sanitize import TEXT_LIKE
from callboard.runtime.schemas.output_types import name_of
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.signature import Function, return_hint

_PLAIN = (
    str, int, float, enum.Enum, *TEXT_LIKE, msgspec.Raw, Blocks, ToolOutput, types.NoneType,
)  # fmt: skip
_LISTS = (list, tuple, collections.abc.Sequence)
_DICTS = (dict, collections.abc.Mapping)
_REFUSED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bytes, bytearray, memoryview), "JSON has only text: decode it, or encode it as base64"),
    ((collections.abc.Set,), "a set's order is chance: return sorted(...)"),
    ((collections.abc.Awaitable,), "declare the function with async def"),
    ((collections.abc.Iterator, collections.abc.AsyncIterator), "it has not run yet: return a list"),
)
_ADVICE = (
    "return text, a number, a bool, None, a list, a dict with text keys, a dataclass, a msgspec Struct or a "
    "pydantic model"
)


def refuse_result(function: Function, name: str) -> None:
    """Refuse a tool whose results cannot become JSON. Raises InvalidAgent."""
    hint = return_hint(function)
    if why := _why_no_json(hint, ()):
        raise InvalidAgent(f"tool {name}: its result, {name_of(hint)}, cannot become JSON: {why}")


def _why_no_json(hint: object, above: tuple[object, ...]) -> str:
    """Return the reason why no value of a type can be relied on to become JSON; empty if it may.

    above: the types that contain this one.
    """
    if hint in above:
        return ""
    above = (*above, hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _why_no_json(arguments[0], above)
    if origin in (typing.Union, types.UnionType):
        return _first(arguments, above)
    kind = getattr(hint, "__supertype__", origin or hint)  # of a NewType
    if not isinstance(kind, type) or kind in (object, typing.Any):
        return ""  # a TypeVar, Any, Literal
    return _why_not_a(kind, arguments, above)


def _why_not_a(kind: type, arguments: tuple[object, ...], above: tuple[object, ...]) -> str:
    refused = next((why for kinds, why in _REFUSED if issubclass(kind, kinds)), "")
    if refused or issubclass(kind, _PLAIN) or _is_open(kind):
        return refused
    parts = _parts_of(kind, arguments)
    if parts is None:
        return f"{name_of(kind)} is no JSON: {_ADVICE}"
    return _why_not_keys(kind, arguments) or _first(parts, above)


def _parts_of(kind: type, arguments: tuple[object, ...]) -> Iterable[object] | None:
    """Return the types inside a type; None for one whose values are no JSON."""
    if _has_fields(kind):
        return _fields(kind)
    if issubclass(kind, _DICTS):
        return arguments[1:]
    return [each for each in arguments if each is not Ellipsis] if issubclass(kind, _LISTS) else None


def _first(hints: Iterable[object], above: tuple[object, ...]) -> str:
    return next((why for hint in hints if (why := _why_no_json(hint, above))), "")


def _why_not_keys(kind: type, arguments: tuple[object, ...]) -> str:
    key = arguments[0] if arguments and issubclass(kind, _DICTS) else str
    if not isinstance(key, type) or issubclass(key, str) or key in (object, typing.Any):
        return ""
    return f"its keys are {name_of(key)}, and JSON keys are text: write str(key)"


def _is_open(kind: type) -> bool:
    """Return True for a class whose instances say more: a protocol, an abstract class, a pydantic model."""
    if kind.__module__ == "collections.abc":
        return not issubclass(kind, _LISTS + _DICTS)
    says_nothing = getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)
    return says_nothing or hasattr(kind, "__pydantic_serializer__")


def _has_fields(kind: type) -> bool:
    is_struct = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)
    return is_struct or typing.is_typeddict(kind) or hasattr(kind, "_fields")


def _fields(kind: type) -> Iterable[object]:
    try:
        return list(typing.get_type_hints(kind, include_extras=True).values())
    except Exception:  # a name that cannot be resolved
        return []
