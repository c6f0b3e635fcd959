"""Structs as people and web frameworks read them: Python values, JSON, and a `repr` without opaque parts."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

_REPR_CHARS_MAX: Final = 200  # of one JSON value in a `repr`


class PlainValues(msgspec.Struct, frozen=True, gc=False):
    """A struct that gives its fields as Python values.

    `dict(value)` works, as for pydantic's models, and pydantic knows how to serialise it. So an endpoint of
    FastAPI may return it as it is.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as new Python values: dicts, lists, texts, numbers. A message has its `type`."""
        return dict(self)

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return msgspec.json.encode(self.to_dict()).decode()

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Yield each field with its Python value."""
        if tag := self.__struct_config__.tag:
            yield "type", tag
        for name in self.__struct_fields__:
            yield name, plain(getattr(self, name))

    def __repr__(self) -> str:
        fields = (f"{name}={shown(getattr(self, name))}" for name in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(fields)})"

    # A core schema of pydantic is a plain dict, so nothing is imported here.
    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> dict[str, Any]:
        """Describe the type to pydantic: an instance, serialised as `to_dict` gives it."""
        return {
            "type": "is-instance",
            "cls": cls,
            "serialization": {"type": "function-plain", "function": cls.to_dict},
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: object, handler: object) -> dict[str, Any]:
        """Describe the type to OpenAPI by the names of its fields."""
        fields = ("type",) * bool(cls.__struct_config__.tag) + cls.__struct_fields__
        return {"type": "object", "title": cls.__name__, "properties": {name: {} for name in fields}}


def plain(value: Any) -> Any:
    """Return a value of a field as a new Python value, with JSON decoded."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, PlainValues):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value


def shown(value: object) -> str:
    """Return the `repr` of a value of a field. JSON is shown as its text, cut."""
    if isinstance(value, msgspec.Raw):
        text = bytes(memoryview(value)[: 4 * _REPR_CHARS_MAX]).decode("utf-8", "replace")
        return text if len(text) <= _REPR_CHARS_MAX else text[: _REPR_CHARS_MAX - 1] + "…"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    return repr(value)
