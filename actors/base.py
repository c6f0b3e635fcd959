"""What every message is made of: frozen structs whose fields are immutable all the way down.

Rules
  - A message is posted, queued, logged and replayed; nobody may be able to change it in between.
  - So a field may hold a number, text, a flag, a tuple, another frozen struct, or `Json`: never a list,
    a dict or a set. The check runs when the class is made, not when it is used.
  - Foreign JSON (schemas, arguments, model blocks, reports) is kept as its own bytes in its own key
    order (`Json`), because reordering a user's schema changes what models write.
  - An absent `Json` is always the constant `NULL`, so that equal messages have equal bytes.
"""

import types
import typing
from typing import Any, TypeAlias

import msgspec

Json: TypeAlias = msgspec.Raw
"""One JSON value as its own bytes. Checked once, at the boundary, before it is wrapped."""

NULL: Json = msgspec.Raw(b"null")
"""The absent `Json`. Use this object, not another null: it is the one that is left out when encoded."""

_SCALARS = (int, str, bool, float, bytes, type(None), msgspec.Raw)


def _why_mutable(hint: Any) -> str:
    """Why a value of this type could change after it was made, or nothing."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType, tuple):
        return next((why for part in typing.get_args(hint) if (why := _why_mutable(part))), "")
    if hint in _SCALARS or hint is Ellipsis or origin is typing.Literal:
        return ""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return "" if hint.__struct_config__.frozen else f"{hint.__name__} is not frozen"
    return f"{getattr(hint, '__name__', hint)} can change or is not known to be immutable"


def check_immutable(cls: type) -> None:
    """Refuse a class with a field that could change. Raises TypeError naming the field."""
    for name, hint in typing.get_type_hints(cls).items():
        if name.startswith("__") or typing.get_origin(hint) is typing.ClassVar:
            continue
        if why := _why_mutable(hint):
            raise TypeError(
                f"{cls.__name__}.{name}: {why}; messages hold scalars, tuples, frozen structs or Json"
            )


class Value(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A frozen part of a message."""

    def __init_subclass__(cls, **config: Any) -> None:
        super().__init_subclass__(**config)
        check_immutable(cls)


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
