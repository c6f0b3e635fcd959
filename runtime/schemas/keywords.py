"""The keywords of draft 2020-12 as one table: what each must look like, and where its subschemas are.

The table says what the draft's meta-schema says. jsonschema's `check_schema` says it too, but takes
1.3 ms for a schema of three keywords and 16 ms for one of fifty properties; the table takes 10 us and
100 us, and gives a message that names what to change. Tests hold the two against each other.

Keywords that are not in the table are annotations: allowed, and without effect (`format` as well, which
draft 2020-12 makes an annotation by default).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})

Place: TypeAlias = Literal["one", "list", "map"]
"""How a keyword holds subschemas: itself one, a list of them, or an object whose values they are."""

PLACES: Final[Mapping[str, Place]] = {
    "$defs": "map",
    "definitions": "map",
    "properties": "map",
    "patternProperties": "map",
    "dependentSchemas": "map",
    "allOf": "list",
    "anyOf": "list",
    "oneOf": "list",
    "prefixItems": "list",
    "items": "one",
    "contains": "one",
    "additionalProperties": "one",
    "propertyNames": "one",
    "unevaluatedItems": "one",
    "unevaluatedProperties": "one",
    "contentSchema": "one",
    "not": "one",
    "if": "one",
    "then": "one",
    "else": "one",
}

SAME_VALUE: Final = frozenset(
    {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
)
"""Keywords whose subschemas look at the value itself, not at a part of it: a loop of these never ends."""

NEVER_APPLIED: Final = frozenset({"$defs", "definitions", "contentSchema"})
"""Keywords whose subschemas look at nothing unless something refers to them."""

REFUSED: Final[Mapping[str, str]] = {
    "$id": "remove $id: a schema stands alone here, nothing is fetched or found by its address",
    "$dynamicRef": "write $ref with a place in this schema (#/$defs/...) instead of $dynamicRef",
    "$dynamicAnchor": "write $anchor, or $defs and $ref, instead of $dynamicAnchor",
    "$recursiveRef": "write $ref instead of $recursiveRef, which belongs to draft 2019-09",
    "$recursiveAnchor": "remove $recursiveAnchor, which belongs to draft 2019-09",
    "$vocabulary": "remove $vocabulary, which belongs to meta-schemas",
    "dependencies": "write dependentRequired or dependentSchemas instead of dependencies (draft 7)",
}
"""Keywords that are not accepted, and what to do instead."""


class Shape(NamedTuple):
    """What a keyword's own value must be."""

    fits: Callable[[object], bool]
    wanted: str


def is_number(value: object) -> bool:
    """Whether it is a JSON number: Python's bool is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and is_number(value) and value >= 0 and value == int(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _is_full_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


def _is_names(value: object) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(each, str) for each in value)
        and len(set(value)) == len(value)
    )


def _is_types(value: object) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return isinstance(value, list) and bool(value) and _is_names(value) and TYPES.issuperset(value)


def _is_names_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_names, value.values()))


def _is_anchor(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z_][-A-Za-z0-9._]*", value) is not None


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and is_number(value) and value > 0


_SIZE = Shape(_is_size, "a whole number that is not negative")
_NUMBER = Shape(is_number, "a number")
_TEXT = Shape(_is_text, "a string")
_FLAG = Shape(_is_flag, "true or false")
_LIST = Shape(_is_list, "an array")
_PLACE_SHAPES: Final[Mapping[Place, Shape]] = {
    "one": Shape(lambda _: True, "a schema"),
    "list": Shape(_is_full_list, "an array of at least one schema"),
    "map": Shape(_is_map, "an object whose values are schemas"),
}

SHAPES: Final[Mapping[str, Shape]] = {
    **{keyword: _PLACE_SHAPES[place] for keyword, place in PLACES.items()},
    "$schema": _TEXT,
    "$ref": _TEXT,
    "$comment": _TEXT,
    "$anchor": Shape(_is_anchor, "a name of letters, digits, `-`, `.` and `_`"),
    "type": Shape(_is_types, f"one of {', '.join(sorted(TYPES))}, or an array of different ones of these"),
    "enum": _LIST,
    "multipleOf": Shape(_is_positive, "a number above 0"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _SIZE),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _SIZE),
    "pattern": _TEXT,
    "uniqueItems": _FLAG,
    "required": Shape(_is_names, "an array of different strings"),
    "dependentRequired": Shape(_is_names_by_name, "an object whose values are arrays of different strings"),
    **dict.fromkeys(("title", "description", "format", "contentEncoding", "contentMediaType"), _TEXT),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _FLAG),
    "examples": _LIST,
}
"""What the value of each keyword must be; a wrong one is refused."""
