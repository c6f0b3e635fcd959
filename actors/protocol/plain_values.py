"""Structs as people and web frameworks read them: Python values, JSON, and a `repr` without opaque parts."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec

_REPR_CHARS_MAX: Final = 200  # of one JSON value in a `repr`
_PLAIN: Final = (str, int, float, bool, type(None))


class PlainValues(msgspec.Struct, frozen=True, gc=False):
    """A struct that gives its fields as Python values.

    `dict(value)` works, as for pydantic's models, and pydantic knows how to serialise it. So an endpoint of
    FastAPI may return it as it is. A private field `_name` counts as `name` if the class has a property of
    that name, and is left out otherwise. `also` names further properties that count as fields.
    """

    also: ClassVar[tuple[str, ...]] = ()

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
        for name, field in _shown_fields(type(self)):
            yield name, plain(_shown_value(self, name, field))

    def __repr__(self) -> str:
        names = [(name, field) for name, field in _shown_fields(type(self)) if name not in self.also]
        fields = (f"{name}={shown(_shown_value(self, name, field))}" for name, field in names)
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
        names = [name for name, _ in _shown_fields(cls)]
        fields = ["type", *names] if cls.__struct_config__.tag else names
        return {"type": "object", "title": cls.__name__, "properties": {name: {} for name in fields}}


def _shown_fields(cls: type[PlainValues]) -> list[tuple[str, str]]:
    """Return the name of each value that counts, and of the field or property that has it."""
    found = []
    for field in cls.__struct_fields__:
        name = field.removeprefix("_")
        if hasattr(cls, name):
            found.append((name, field))
    return found + [(name, name) for name in cls.also]


def _shown_value(owner: PlainValues, name: str, field: str) -> object:
    # JSON as it is: the property may build an object of it, and a `repr` shows its text.
    value = getattr(owner, field)
    return value if isinstance(value, msgspec.Raw) else getattr(owner, name)


def plain(value: object) -> Any:
    """Return a value of a field as a new Python value, with JSON decoded."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, PlainValues):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return msgspec.to_builtins(value, enc_hook=_inner)


def _inner(value: object) -> object:
    """Return JSON, or a model of pydantic, as Python values. Raises NotImplementedError for other objects."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    # Not a class to compare with: pydantic is the user's choice, and is not imported here.
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise NotImplementedError(f"{type(value).__name__} is not a JSON value")
    return dump(mode="json", by_alias=True)


def shown(value: object) -> str:
    """Return the `repr` of a value of a field. JSON is shown as its text, cut."""
    if isinstance(value, msgspec.Raw):
        return _cut(bytes(memoryview(value)[: 4 * _REPR_CHARS_MAX]).decode("utf-8", "replace"))
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' * (len(value) == 1)})"
    return _cut(repr(value)) if isinstance(value, dict | list) else repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= _REPR_CHARS_MAX else text[: _REPR_CHARS_MAX - 1] + "…"
