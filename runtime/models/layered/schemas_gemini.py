"""The schemas of tools as Gemini gets them: as they are, or wider, never narrower.

Gemini knows a part of JSON Schema: the keywords in `_KNOWN`, documented for `parametersJsonSchema`. Other
keywords are left out, which widens a schema, and stand in the description of the whole, each under the place
where it was. Four keywords need more than that:

    const                 an enum of one value, if that is a text or a number
    oneOf                 anyOf: Gemini reads it so
    additionalProperties  left out beside patternProperties, whose names it would refuse
    $ref                  alone, and only to a definition at the top
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.layered.dialects import JsonObject
from callboard.runtime.models.layered.schemas import described, object_at_top, with_items

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


def _kept(schema: Any, place: str, lost: Lost) -> JsonObject:
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
