"""Result types: one without a JSON of its own is refused when the tool is made, before it can have an effect.

Once a tool has run, its result is taken, of any type: see `foreign_values.py`. So a result without an
annotation, or of a type that says nothing (`Any`, `object`, a protocol), is not refused.
"""

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Iterable

import msgspec

from callboard.actors.protocol.errors import InvalidAgent
from callboard.runtime.foreign_types import has_form
from callboard.runtime.outputs.tool_output import ToolOutput
from callboard.runtime.schemas.output_types import name_of
from callboard.runtime.tools.output import Blocks
from callboard.runtime.tools.signature import Function, return_hint

_OWN = (msgspec.Raw, Blocks, ToolOutput, types.NoneType)
_REFUSED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((collections.abc.Awaitable,), "declare the function with async def"),
    ((collections.abc.Iterator, collections.abc.AsyncIterator), "it has not run yet: return a list"),
)
_ADVICE = (
    "return text, a number, a bool, None, a list, a dict, a dataclass, a msgspec Struct or a pydantic model"
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
    if refused or issubclass(kind, _OWN) or _is_open(kind):
        return refused
    if _has_fields(kind):
        return _first(_fields(kind), above)
    if not has_form(kind):
        return f"{name_of(kind)} is not JSON: {_ADVICE}"
    return _first([each for each in arguments if each is not Ellipsis], above)


def _first(hints: Iterable[object], above: tuple[object, ...]) -> str:
    return next((why for hint in hints if (why := _why_no_json(hint, above))), "")


def _is_open(kind: type) -> bool:
    """Return True for a class whose instances say more: a protocol, an abstract class, a pydantic model."""
    if kind.__module__ == "collections.abc":
        return not has_form(kind)
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
