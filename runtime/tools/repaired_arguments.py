"""Arguments that a model wrote in a known wrong way, and that can mean only one thing.

    the model wrote                                     it means
    null for an optional parameter that takes no null   the parameter is left out
    a text with a JSON list or object, for a parameter
      that takes lists or objects, and no text          that list or object

OpenAI's strict schemas teach the first, since they require every parameter; the second comes from models that
write nested arguments as text (autogen#4997, openclaw#96916, hermes-agent#3947). Both are repeated however
often the call is refused, so a refusal costs turns and helps nobody. Only the parameters themselves are read,
not what is inside of them. The log keeps the arguments as the model wrote them.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from callboard.actors.protocol.immutable import Json

_DICT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEPTH_MAX: Final = 8
_PREFIX: Final = "#/$defs/"
Kinds = frozenset[str]
_NAMES: Final[Mapping[type, str]] = {
    type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array",
    dict: "object",
}  # fmt: skip


def repaired(arguments: Json, schema: Mapping[str, object]) -> Json | None:
    """Return the arguments as they were meant; None if nothing in them is of a known wrong form.

    >>> schema = {"properties": {"tags": {"type": "array"}, "limit": {"type": "integer"}}}
    >>> bytes(repaired(Json(b'{"tags": "[1]", "limit": null}'), schema) or b"")
    b'{"tags":[1]}'
    """
    values, properties = _object(arguments), schema.get("properties")
    if not isinstance(properties, Mapping):
        return None
    meant = {name: _meant(name, value, properties, schema) for name, value in values.items()}
    if all(meant[name] is value for name, value in values.items()):
        return None
    return Json(msgspec.json.encode({name: value for name, value in meant.items() if value is not None}))


def _object(arguments: Json) -> dict[str, msgspec.Raw]:
    """Return the arguments by name; none for any other JSON, of which the reader of the tool tells."""
    try:
        return _DICT.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}


def _meant(
    name: str, value: msgspec.Raw, properties: Mapping[str, object], schema: Mapping[str, object]
) -> msgspec.Raw | None:
    """Return an argument as it was meant; None for one that is left out."""
    kinds = _kinds(properties.get(name), schema) if _is_odd(value) else None
    if kinds is None:
        return value
    if bytes(value) != b"null":
        return _unpacked(value, kinds)
    return value if "null" in kinds or _is_required(name, schema) else None


def _is_required(name: str, schema: Mapping[str, object]) -> bool:
    required = schema.get("required")
    return isinstance(required, list) and name in required


def _is_odd(value: msgspec.Raw) -> bool:
    """Return True for null, and for a text that may hold a list or an object."""
    text = bytes(value)
    return text == b"null" or text[:1] == b'"'


def _unpacked(value: msgspec.Raw, kinds: Kinds) -> msgspec.Raw:
    """Return the list or object in a text, if its parameter takes that and no text; else the text."""
    wanted = kinds & {"array", "object"}
    if "string" in kinds or not wanted:
        return value
    try:
        text = msgspec.json.decode(value, type=str).strip().encode()
        inner = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return value
    return msgspec.Raw(text) if _NAMES.get(type(inner)) in wanted else value


def _kinds(part: object, schema: Mapping[str, object], depth: int = 0) -> Kinds | None:
    """Return the types of JSON that a part of a schema takes; None if it may take any."""
    if not isinstance(part, Mapping) or depth > _DEPTH_MAX:
        return None
    if "$ref" in part:
        return _kinds(_definition(part["$ref"], schema), schema, depth + 1)
    for options in (part.get("anyOf"), part.get("oneOf")):
        if isinstance(options, list):
            return _union([_kinds(option, schema, depth + 1) for option in options])
    return _named(part)


def _named(part: Mapping[str, object]) -> Kinds | None:
    """Return the types that a part of a schema names by its `enum` or `type`."""
    if isinstance(choices := part.get("enum"), list):
        return frozenset(_NAMES.get(type(choice), "") for choice in choices)
    told = part.get("type")
    names: list[object] = told if isinstance(told, list) else [told]
    kinds = frozenset(name for name in names if isinstance(name, str))
    return kinds if len(kinds) == len(names) else None


def _union(found: list[Kinds | None]) -> Kinds | None:
    known = [kinds for kinds in found if kinds is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def _definition(reference: object, schema: Mapping[str, object]) -> object:
    definitions = schema.get("$defs")
    if not isinstance(reference, str) or not isinstance(definitions, Mapping):
        return None
    return definitions.get(reference[len(_PREFIX) :]) if reference.startswith(_PREFIX) else None
