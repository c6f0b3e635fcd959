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
from callboard.runtime.sanitize import TEXT_LIKE
from callboard.runtime.schemas.output_types import name_of
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.signature import Function, return_hint

_PLAIN = (
    str, int, float, enum.Enum, *TEXT_LIKE, msgspec.Raw, Blocks, types.NoneType,
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
    for refused, why in _REFUSED:
        if issubclass(kind, refused) and not issubclass(kind, str):
            return why
    if issubclass(kind, _PLAIN) or _is_open(kind):
        return ""
    if issubclass(kind, _DICTS) and not typing.is_typeddict(kind):
        return _why_not_keys(arguments[:1]) or _first(arguments[1:], above)
    if issubclass(kind, _LISTS) and not hasattr(kind, "_fields"):
        return _first((each for each in arguments if each is not Ellipsis), above)
    if hasattr(kind, "__pydantic_serializer__"):
        return ""  # its own serializer knows
    if _has_fields(kind):
        return _first(_fields(kind), above)
    return f"{name_of(kind)} is no JSON: {_ADVICE}"


def _first(hints: Iterable[object], above: tuple[object, ...]) -> str:
    return next((why for hint in hints if (why := _why_no_json(hint, above))), "")


def _why_not_keys(keys: tuple[object, ...]) -> str:
    key = next(iter(keys), str)
    is_plain = isinstance(key, type) and not issubclass(key, str) and key is not object
    return f"its keys are {name_of(key)}, and JSON keys are text: write str(key)" if is_plain else ""


def _is_open(kind: type) -> bool:
    """Return True for a class whose instances may be of any other: a protocol, an abstract class."""
    if kind.__module__ == "collections.abc":
        return not issubclass(kind, _LISTS + _DICTS)
    return getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)


def _has_fields(kind: type) -> bool:
    is_struct = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind)
    return is_struct or typing.is_typeddict(kind) or hasattr(kind, "_fields")


def _fields(kind: type) -> Iterable[object]:
    try:
        return list(typing.get_type_hints(kind, include_extras=True).values())
    except Exception:  # a name that cannot be resolved
        return []
