"""Schemas and values in the form that jsonschema is given: the same JSON, with three traps taken out.

- jsonschema puts `repr(instance)` into the message of every error, wanted or not: a thousand errors
  about one large value are gigabytes. So every container and long string is given a short `repr`.
- jsonschema takes a subschema with `$schema` as a reason to change to its own stock validator, which
  uses Python's `re`. So `$schema` is left out.
- A `$ref` is looked up in a registry every time. Here it carries what it means.
"""

from typing import Final

from callboard.runtime.schemas.jsontext import canonical
from callboard.runtime.schemas.keywords import PLACES
from callboard.runtime.schemas.outline import Outline

_LONG_CHARS: Final = 100


class QuietDict(dict[str, object]):
    """An object with a short `repr`. values_in: how many values are in it, at any depth, itself included."""

    __slots__ = ("values_in",)

    def __init__(self, members: dict[str, object]) -> None:
        super().__init__(members)
        self.values_in = 1 + sum(map(size, members.values()))

    def __repr__(self) -> str:
        return "{...}"


class QuietList(list[object]):
    """An array with a short `repr`. values_in: as of `QuietDict`."""

    __slots__ = ("values_in",)

    def __init__(self, items: list[object]) -> None:
        super().__init__(items)
        self.values_in = 1 + sum(map(size, items))

    def __repr__(self) -> str:
        return "[...]"


class QuietStr(str):
    """A long string with a short `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


class Choices(QuietList):
    """The values of an `enum`, with the texts that they are compared by."""

    __slots__ = ("texts",)

    def __init__(self, items: list[object]) -> None:
        super().__init__(items)
        self.texts = frozenset(map(canonical, items))


class Reference(str):
    """A `$ref` that knows its target."""

    __slots__ = ("target",)

    target: object


def size(value: object) -> int:
    """How many values a prepared value consists of."""
    return value.values_in if isinstance(value, QuietDict | QuietList) else 1


def quiet(value: object) -> object:
    """The value with short `repr`s. It must not nest deeper than the stack allows."""
    if isinstance(value, dict):
        return QuietDict({name: quiet(each) for name, each in value.items()})
    if isinstance(value, list):
        return QuietList([quiet(each) for each in value])
    return QuietStr(value) if isinstance(value, str) and len(value) > _LONG_CHARS else value


_NOTHING: Final = QuietDict({"not": QuietDict({})})
"""Stands for `false`, for which jsonschema forgets to say where it was."""

_OF_THEIR_OWN: Final = frozenset(
    {"items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that say something of their own about `false`."""


def prepare(outline: Outline) -> object:
    """The accepted schema of this outline, prepared."""
    made: dict[int, object] = {}
    references: list[Reference] = []
    root = _schema(outline.nodes[""], made, references)
    for reference in references:
        reference.target = made[id(outline.nodes[outline.targets[str(reference)]])]
    return root


def _schema(schema: object, made: dict[int, object], references: list[Reference]) -> object:
    if not isinstance(schema, dict):
        made[id(schema)] = schema if schema else _NOTHING
        return made[id(schema)]
    prepared = made[id(schema)] = QuietDict({})
    for keyword, value in schema.items():
        if keyword == "$ref":
            references.append(Reference(value))
            prepared[keyword] = references[-1]
        elif keyword in PLACES:
            prepared[keyword] = _subschemas(keyword, value, made, references)
        elif keyword != "$schema":
            prepared[keyword] = _plain(keyword, value)
    return prepared


def _subschemas(keyword: str, value: object, made: dict[int, object], references: list[Reference]) -> object:
    place = PLACES[keyword]
    if place == "list" and isinstance(value, list):
        return QuietList([_schema(each, made, references) for each in value])
    if place == "map" and isinstance(value, dict):
        return QuietDict(
            {_key(keyword, name): _schema(each, made, references) for name, each in value.items()}
        )
    if value is False and keyword in _OF_THEIR_OWN:
        made[id(value)] = _NOTHING
        return False
    return _schema(value, made, references)


def _key(keyword: str, name: str) -> str:
    return _pattern(name) if keyword == "patternProperties" else name


def _plain(keyword: str, value: object) -> object:
    if keyword == "pattern" and isinstance(value, str):
        return _pattern(value)
    return Choices(value) if keyword == "enum" and isinstance(value, list) else quiet(value)


def _pattern(text: str) -> str:
    from callboard.runtime.schemas.patterns import Pattern  # few schemas need RE2

    return Pattern(text)
