"""Base classes of messages and their parts: frozen structs, immutable all the way down.

Rules
  - A message never changes after it is made: it is posted, queued, logged and replayed as one object.
  - A field holds a number, a text, a flag, a tuple, another frozen struct, or `Json`, and never a list, a
    dict or a set. The check runs once, when the class is made.
  - Foreign JSON (schemas, arguments, model blocks, reports) keeps its own bytes and key order, as `Json`.
  - Equal messages have equal bytes.
"""

import types
import typing
from functools import cache
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from callboard.actors.protocol.plain_values import PlainValues

Json: TypeAlias = msgspec.Raw
"""One JSON value as its own bytes, checked once, at the boundary.

It is never encoded again: another key order in a user's schema changes the replies of models.
"""

JsonObject: TypeAlias = dict[str, Any]
"""One JSON object, decoded. The reader of a value knows its form, or checks it."""

NULL: Json = msgspec.Raw(b"null")
"""The absent `Json`."""

_SCALARS = (int, str, bool, float, bytes, type(None), msgspec.Raw)


def _why_mutable(hint: object) -> str:
    """Return the reason why a value of this type could change; empty if it cannot."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType, tuple):
        return next((why for part in typing.get_args(hint) if (why := _why_mutable(part))), "")
    if hint in _SCALARS or hint is Ellipsis or origin is typing.Literal:
        return ""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _why_mutable_part(hint)
    return f"{getattr(hint, '__name__', hint)} can change or is not known to be immutable"


@cache
def _why_mutable_part(cls: type[msgspec.Struct]) -> str:
    if not cls.__struct_config__.frozen:
        return f"{cls.__name__} is not frozen"
    for name, hint in _fields(cls):
        if why := _why_mutable(hint):
            return f"{cls.__name__}.{name}: {why}"
    return ""


def _fields(cls: type) -> list[tuple[str, Any]]:
    # The class itself is not known by its name yet. A field of its own type is as immutable as the rest.
    hints = typing.get_type_hints(cls, localns={cls.__name__: cls})
    return [
        (name, hint)
        for name, hint in hints.items()
        if not name.startswith("__")
        and typing.get_origin(hint) is not typing.ClassVar
        and hint != tuple[cls, ...]  # type: ignore[valid-type]  # a class is made here, not named
    ]


def check_immutable(cls: type) -> None:
    """Refuse a class with a field that could change. Raises TypeError naming the field."""
    for name, hint in _fields(cls):
        if why := _why_mutable(hint):
            raise TypeError(
                f"{cls.__name__}.{name}: {why}; messages hold scalars, tuples, frozen structs or Json"
            )


@cache
def _defaults(cls: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """Return the fields whose default another object can equal. Raises TypeError for a mutable class."""
    # Here and not in __init_subclass__: a class shows its own configuration only once it is complete.
    if not cls.__struct_config__.frozen:
        raise TypeError(f"{cls.__name__} is not frozen; messages and their parts are")
    defaults = cls.__struct_defaults__  # of the last fields
    names = cls.__struct_fields__[-len(defaults) :] if defaults else ()
    return tuple(
        (name, default)
        for name, default in zip(names, defaults, strict=True)
        if default is not msgspec.NODEFAULT and not _is_one_object(default)
    )


def _is_one_object(value: object) -> bool:
    """Return True if CPython keeps one object for this value: a flag, None, the empty, a small number."""
    return isinstance(value, bool) or value in (None, "", ()) or (type(value) is int and 0 <= value <= 256)


def keep_default(part: msgspec.Struct, name: str, default: object) -> None:
    """Replace the value of a field by its default if it equals it."""
    # The encoder leaves a field out if it holds the very object that is its default, not an equal one.
    value = getattr(part, name)
    if value is not default and value == default:
        force_setattr(part, name, default)


class Value(PlainValues, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A frozen part of a message whose defaults are numbers, texts, flags or nothing."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        check_immutable(cls)


class Part(Value, frozen=True):
    """A frozen part of a message with defaults that are objects, which replace equal values.

    That costs a Python call for each instance, so small and frequent parts are plain `Value`s.
    """

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            # As `keep_default`, without a call for each field.
            value = getattr(self, name)
            if value is not default and value == default:
                force_setattr(self, name, default)


class Message(
    PlainValues,
    frozen=True,
    tag=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A message. Each kind is a class, and the field `type` holds its name."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        check_immutable(cls)


class RichMessage(Message, frozen=True):
    """A message with defaults that are objects: see `Part`.

    The frequent kinds have one such field, and call `keep_default` for it without the loop.
    """

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            # As `keep_default`, without a call for each field.
            value = getattr(self, name)
            if value is not default and value == default:
                force_setattr(self, name, default)
