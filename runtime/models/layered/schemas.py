"""The schemas of tools as a service gets them: as they are, or wider, never narrower.

A service takes the schema of a tool only if it describes an object. Keywords at its top that the services
refuse there go into the description, so the schema that is sent admits all that ours admits; the arguments of
a call are checked against ours. An array without `items` gets an empty one, which says the same: OpenAI and
Gemini refuse it without. `strict` is set only for a schema that is already in the strict dialect.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.layered.dialects import JsonObject
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


def with_items(schema: Any) -> Any:
    """Return a schema in which every array has `items`."""
    if not isinstance(schema, dict):
        return schema
    found = {key: _inside_of(key, value) for key, value in schema.items()}
    kinds = found.get("type", "")
    is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    return {**found, "items": {}} if is_array and "items" not in found else found


def _inside_of(keyword: str, value: Any) -> Any:
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


def _refers(schema: Any) -> bool:
    """Return whether there is a reference in a schema."""
    text = msgspec.json.encode(schema)
    return b'"$ref"' in text or b'"$dynamicRef"' in text


def object_at_top(schema: Any) -> tuple[JsonObject, JsonObject]:
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


def _parts(schema: Any, depth: int) -> Iterator[tuple[JsonObject, int]]:
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
