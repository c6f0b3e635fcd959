"""What every message is made of: frozen structs whose fields are immutable all the way down.

Rules
  - A message is posted, queued, logged and replayed; nobody may be able to change it in between.
  - So a field may hold a number, text, a flag, a tuple, another frozen struct, or `Json`: never a list,
    a dict or a set. The check runs when the class is made, not when it is used.
  - Foreign JSON (schemas, arguments, model blocks, reports) is kept as its own bytes in its own key
    order (`Json`), because reordering a user's schema changes what models write.
  - Equal messages have equal bytes. The encoder leaves a field out when it holds the very object that is
    its default (msgspec compares by identity), so a field that equals its default is made to hold it.
"""

import types
import typing
from functools import cache
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = msgspec.Raw
"""One JSON value as its own bytes. Checked once, at the boundary, before it is wrapped."""

NULL: Json = msgspec.Raw(b"null")
"""The absent `Json`."""

_SCALARS = (int, str, bool, float, bytes, type(None), msgspec.Raw)


def _why_mutable(hint: Any) -> str:
    """Why a value of this type could change after it was made, or nothing."""
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
    return [
        (name, hint)
        for name, hint in typing.get_type_hints(cls).items()
        if not name.startswith("__") and typing.get_origin(hint) is not typing.ClassVar
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
    """The fields whose default can be equalled by another object than itself.

    The first instance of a class asks for them, which is also the first moment at which the class's own
    configuration can be seen: a class that is not frozen gets no instance.
    """
    if not cls.__struct_config__.frozen:
        raise TypeError(f"{cls.__name__} is not frozen; messages and their parts are")
    return tuple(
        (field.name, field.default)
        for field in msgspec.structs.fields(cls)
        if field.default is not msgspec.NODEFAULT and not _is_one_object(field.default)
    )


def _is_one_object(value: Any) -> bool:
    """Whether CPython keeps one object for this value: a flag, nothing, the empty, a small number."""
    return isinstance(value, bool) or value in (None, "", ()) or (type(value) is int and 0 <= value <= 256)


class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A frozen part of a message whose defaults are numbers, texts, flags or nothing."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        check_immutable(cls)


class Part(Value, frozen=True):
    """A frozen part of a message with defaults that are objects: an equal one is replaced by the default.

    That costs a Python call for each instance, which is why the small and frequent parts are plain `Value`s.
    """

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                msgspec.structs.force_setattr(self, name, default)


class Message(
    msgspec.Struct,
    frozen=True,
    tag=True,
    tag_field="type",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A message: one class per kind, told apart by the class name in the field `type`."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        check_immutable(cls)


class RichMessage(Message, frozen=True):
    """A message with defaults that are objects: see `Part`."""

    def __post_init__(self) -> None:
        for name, default in _defaults(type(self)):
            value = getattr(self, name)
            if value is not default and value == default:
                msgspec.structs.force_setattr(self, name, default)
