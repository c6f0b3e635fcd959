"""The schemas of tools as a service gets them: as they are, or wider, never narrower.

A service takes the schema of a tool only if it describes an object. Keywords at its top that the services
refuse there go into the description, so the schema that is sent admits all that ours admits; the arguments of
a call are checked against ours. An array without `items` gets an empty one, which says the same: OpenAI and
Gemini refuse it without. `strict` is set only for a schema that is already in the strict dialect.

The schemas of tools as Gemini gets them: as they are, or wider, never narrower.

Gemini knows a part of JSON Schema: the keywords in `_KNOWN`, documented for `parametersJsonSchema`. Other
keywords are left out, which widens a schema, and stand in the description of the whole, each under the place
where it was. Four keywords need more than that:

    const                 an enum of one value, if that is a text or a number
    oneOf                 anyOf: Gemini reads it so
    additionalProperties  left out beside patternProperties, whose names it would refuse
    $ref                  alone, and only to a definition at the top
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import msgspec

from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.runtime.schemas.subschema_index import PLACES

STRICT_DEPTH_MAX: Final = 5
STRICT_NAMES_MAX: Final = 100
# Keywords that the strict dialect has had since it was published, and that need no further rule.
_STRICT: Final = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref",
        "$defs", "description", "title",
    }
)  # fmt: skip
_NOVA: Final = ("type", "properties", "required")
# The services refuse these at the top. The last one counts what the others leave over, so it goes with them.
_NOT_AT_TOP: Final = frozenset(
    {
        "anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref", "$dynamicRef",
        "unevaluatedProperties",
    }
)  # fmt: skip


def sendable(schema: Json) -> JsonObject:
    """Return the schema to send: the same one, or a wider one with the lost words in its description."""
    kept, lost = object_at_top(msgspec.json.decode(schema))
    return {**with_items(kept), **described(kept, lost)}


def with_items(schema: object) -> Any:
    """Return a schema in which every array has `items`."""
    if not isinstance(schema, dict):
        return schema
    found = {key: _inside_of(key, value) for key, value in schema.items()}
    kinds = found.get("type", "")
    is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    return {**found, "items": {}} if is_array and "items" not in found else found


def _inside_of(keyword: str, value: object) -> Any:
    """Return the value of a keyword, with `items` in the arrays of the schemas that it holds."""
    match PLACES.get(keyword), value:
        case "map", dict():
            return {name: with_items(one) for name, one in value.items()}
        case "list", list():
            return [with_items(one) for one in value]
        case "one", _:
            return with_items(value)
        case _:
            return value


def sendable_to_nova(schema: Json) -> JsonObject:
    """Return the schema to send to Amazon's Nova, which knows three keywords at the top, and no definitions.

    The description that it has beside them is for that of the tool.
    """
    top, lost = object_at_top(msgspec.json.decode(schema))
    lost |= {key: value for key, value in top.items() if key not in (*_NOVA, "description", "$schema")}
    kept = {key: value for key, value in top.items() if key in _NOVA}
    if "properties" in kept:
        kept["properties"] = {name: {} if _refers(one) else one for name, one in kept["properties"].items()}
    if kept.get("properties") != top.get("properties"):
        lost["properties"] = top["properties"]
    return {**kept, **described(top, lost)}


def _refers(schema: object) -> bool:
    """Return whether there is a reference in a schema."""
    text = msgspec.json.encode(schema)
    return b'"$ref"' in text or b'"$dynamicRef"' in text


def object_at_top(schema: object) -> tuple[JsonObject, JsonObject]:
    """Return a schema of an object, without keywords that services refuse at the top, and these keywords."""
    if not isinstance(schema, dict):
        return {"type": "object"}, {}
    lost = {key: value for key, value in schema.items() if key in _NOT_AT_TOP}
    kept = {key: value for key, value in schema.items() if key not in lost}
    return {**kept, "type": "object"}, lost


def described(kept: JsonObject, lost: JsonObject) -> JsonObject:
    """Return the description of a schema, with the words that it lost."""
    words = f"Also: {msgspec.json.encode(lost).decode()}" if lost else ""
    told = "\n".join(filter(None, (str(kept.get("description", "")), words)))
    return {"description": told} if told else {}


def is_strict(schema: JsonObject) -> bool:
    """Return whether a schema is in the strict dialect as it stands."""
    if schema.get("type") != "object" or "anyOf" in schema:
        return False
    names = sum(len(part.get("properties", ())) for part, _ in _parts(schema, 1))
    return names <= STRICT_NAMES_MAX and all(
        depth <= STRICT_DEPTH_MAX and _is_strict_part(part) for part, depth in _parts(schema, 1)
    )


def _is_strict_part(part: JsonObject) -> bool:
    if not part.keys() <= _STRICT or not part.keys() & {"type", "anyOf", "enum", "const", "$ref"}:
        return False
    if "properties" not in part and part.get("type") != "object":
        return not part.keys() & {"required", "additionalProperties"}
    names = part.get("properties", {})
    return part.get("additionalProperties") is False and set(part.get("required", ())) == set(names)


def _parts(schema: object, depth: int) -> Iterator[tuple[JsonObject, int]]:
    """Return a schema and all inside it, each with its depth."""
    if not isinstance(schema, dict):
        yield {"not": {}}, depth
        return
    yield schema, depth
    for inner, further in _inside(schema):
        yield from _parts(inner, depth + further)


def _inside(schema: JsonObject) -> Iterator[tuple[Any, int]]:
    """Return the schemas in a schema, each with the levels that it is deeper."""
    yield from ((one, 0) for one in schema.get("$defs", {}).values())
    items = [schema["items"]] if "items" in schema else []
    inner = [*items, *schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    yield from ((one, 1) for one in inner)


_KNOWN: Final = frozenset(
    {
        "type", "description", "format", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum",
        "maximum", "anyOf", "properties", "additionalProperties", "required", "$ref", "$defs",
    }
)  # fmt: skip


_FORMATS: Final = frozenset({"date-time", "date", "time"})


_DEFINITION: Final = "#/$defs/"


_MAPS: Final = frozenset({"properties", "$defs"})


_LISTS: Final = frozenset({"anyOf", "prefixItems"})


_SCHEMAS: Final = frozenset({"items", "additionalProperties"})


Lost = JsonObject
"""The words that were left out, by the place of their schema: a path of keys, "" for the top."""


def sendable_to_gemini(schema: Json) -> JsonObject:
    """Return the schema to send: the same one, or a wider one with the lost words in its description."""
    top, lost_at_top = object_at_top(msgspec.json.decode(schema))
    lost: Lost = {"": lost_at_top} if lost_at_top else {}
    kept = _kept(top, "", lost)
    return {**with_items(kept), **described(kept, lost)}


def _kept(schema: object, place: str, lost: Lost) -> JsonObject:
    """Return the known part of a schema. Adds the rest to lost."""
    if not isinstance(schema, dict) or (place and "$id" in schema):  # its references lead elsewhere
        lost.update({} if schema is True else {place: schema})
        return {}
    plain = _renamed(schema)
    kept = {key: _value(key, plain[key], place, lost) for key in filter(partial(_is_known, plain), plain)}
    if left := {key: value for key, value in schema.items() if not _is_said(key, value, kept)}:
        lost[place] = {**lost.get(place, {}), **left}
    return kept


def _renamed(schema: JsonObject) -> JsonObject:
    """Return a schema with the words of Gemini for const and oneOf, and a reference alone."""
    if "$ref" in schema:
        return {key: value for key, value in schema.items() if key in ("$ref", "$defs")}
    found = dict(schema)
    if "const" in found and "enum" not in found:
        found["enum"] = [found["const"]]
    if "oneOf" in found and "anyOf" not in found:
        found["anyOf"] = found["oneOf"]
    return found


def _is_said(key: str, value: object, kept: JsonObject) -> bool:
    """Return whether the kept words say a keyword, or it says nothing."""
    return key in kept or key == "$schema" or (key == "const" and kept.get("enum") == [value])


def _is_known(schema: JsonObject, key: str) -> bool:
    check = _CHECKS.get(key)
    return key in _KNOWN and (check is None or check(schema))


def _is_plain(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


_CHECKS: Final[dict[str, Callable[[JsonObject], bool]]] = {
    "enum": lambda schema: all(map(_is_plain, schema["enum"])),
    "format": lambda schema: schema["format"] in _FORMATS,
    "additionalProperties": lambda schema: "patternProperties" not in schema,
    "$ref": lambda schema: _is_definition(schema["$ref"]),
}
"""Tell of a known keyword if Gemini knows it with this value, in this schema."""


def _is_definition(reference: str) -> bool:
    return reference.startswith(_DEFINITION) and "/" not in reference.removeprefix(_DEFINITION)


def _value(key: str, value: Any, place: str, lost: Lost) -> Any:
    """Return the value of a keyword, with the known parts of the schemas in it."""
    inside = f"{place}/{key}"
    if key in _LISTS:
        return list(_all_kept(enumerate(value), inside, lost).values())
    if key in _MAPS:
        return _all_kept(value.items(), inside, lost)
    return _kept(value, inside, lost) if key in _SCHEMAS and not isinstance(value, bool) else value


def _all_kept(schemas: Iterable[tuple[Any, Any]], place: str, lost: Lost) -> JsonObject:
    return {name: _kept(one, f"{place}/{name}", lost) for name, one in schemas}
