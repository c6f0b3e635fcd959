"""The schema of a tool's arguments, mended where a service would refuse the whole request for it.

A service refuses a request for one schema that it does not take, and with it all the other tools. So a schema
is made wider, never narrower, until services take it; the server still checks the arguments.

no schema, or `true`                  an object with any fields
no `type` at its top                  an object
a keyword with a value that JSON
  Schema does not allow               left out: `"type": "text"`, `"required": true`, `"properties": null`
anyOf, oneOf or allOf at its top      the fields of all its branches, and its words in the description
a reference inside it at its top      the fields of the part that it leads to
not, if, enum, const at its top       the same
a reference inside that leads nowhere left out
of anything but an object, `false`    refused
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.mcp.foreign_json import shown
from callboard.runtime.sanitize import to_json

Schema = JsonObject

_BYTES_MAX: Final = 2**19  # of a schema: 0.5 MB of the worst hold the loop for 50 ms
_FAULTS_MAX: Final = 100
_MENDED_BYTES_MAX: Final = 2**16  # of a schema with faults
_WORDS_CHARS: Final = 1_000
_CHOICES: Final = ("anyOf", "oneOf")
_AT_TOP: Final = (*_CHOICES, "allOf", "not", "if", "then", "else", "enum", "const")
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS: Final = frozenset(
    {"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_WORDS: Final = frozenset({"required", "type"})  # lists of different words


def usable(given: object) -> tuple[Schema, list[str]]:
    """Return the schema that services take, and the changes. Raises ValueError if services take none.

    >>> usable({"anyOf": [{"properties": {"id": {"type": "integer"}}}, {"type": "null"}]})[0]["properties"]
    {'id': {'type': 'integer'}}
    >>> usable({"type": "object"})
    ({'type': 'object'}, [])
    """
    if given is None or given is True:
        given = {}
    if not isinstance(given, dict):
        raise ValueError(f"its schema is not an object: {shown(given, 100)}")
    data = bytes(to_json(given, max_bytes=_BYTES_MAX, what="its schema"))
    schema: Schema = msgspec.json.decode(data)
    mended = [] if _meta().is_valid(schema) else _drop_faults(schema, len(data))
    _narrow(schema)
    is_reference = _held(schema, schema.get("$ref")) is not None
    if at_top := [word for word in (*_AT_TOP, *["$ref"] * is_reference) if word in schema]:
        schema = _flat(schema, schema)
        mended.append(f"{', '.join(at_top)} at its top")
    mended += _drop_lost_references(schema)
    return schema, mended


@cache
def _meta() -> jsonschema_rs.Draft202012Validator:
    address = "https://json-schema.org/draft/2020-12/schema"
    return jsonschema_rs.Draft202012Validator({"$ref": address}, offline=True)


def _drop_faults(schema: Schema, size: int) -> list[str]:
    """Leave out the values that JSON Schema does not allow. Return their places. Raises ValueError."""
    if size > _MENDED_BYTES_MAX:
        raise ValueError("it is not a JSON Schema, and too large to be read in parts")
    dropped: list[str] = []
    left: list[tuple[str, Schema]] = [("", schema)]
    while left and len(dropped) <= _FAULTS_MAX:
        where, part = left.pop()
        dropped += (f"the value of {where}{key}" for key in _drop_own(part))
        left += ((f"{where}{key}.", inner) for key, inner in _inner(part))
    if left or not _meta().is_valid(schema):
        raise ValueError(f"its schema has more than {_FAULTS_MAX} faults, or one that cannot be left out")
    return dropped


def _drop_own(part: Schema) -> list[str]:
    """Leave out the faults of one part, without the schemas in it. Return their keys."""
    # The validator lists every error before it returns one, so the long lists and objects come first.
    cleared = {key: _cleared(key, value) for key, value in part.items()}
    shallow = {key: _shallow(key, value) for key, value in cleared.items()}
    wrong = {error.instance_path[0] for error in _meta().iter_errors(shallow) if error.instance_path}
    dropped = [key for key in part if key in wrong or part[key] != cleared[key]]
    part.clear()
    part.update((key, value) for key, value in cleared.items() if key not in wrong)
    return dropped


def _cleared(key: str, value: object) -> object:
    """Return a value without the items that are odd; a field or branch stays, of any type."""
    match value:
        case dict() if key in _NAMED:
            return {name: _schema(one) for name, one in value.items()}
        case list() if key in _LISTS:
            return [_schema(one) for one in value]
        case list() if key in _WORDS:
            return _words(value)
        case dict() if key == "dependentRequired":
            return {name: _words(one) for name, one in value.items() if isinstance(one, list)}
        case _:
            return value


def _schema(given: object) -> object:
    return given if isinstance(given, dict | bool) else {}


def _shallow(key: str, value: object) -> object:
    """Return a value without the schemas in it, as the validator shall not go there."""
    inner = [one for _, one in _inner({key: value})]
    if not inner:
        return value
    return True if key in _SCHEMAS else {} if isinstance(value, dict) else [True]


def _inner(part: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the schemas in one part, with their keys."""
    for key, value in part.items():
        items: Iterable[tuple[object, object]] = ()
        if key in _SCHEMAS and isinstance(value, dict):
            yield key, value
        elif key in _NAMED and isinstance(value, dict):
            items = value.items()
        elif key in _LISTS and isinstance(value, list):
            items = enumerate(value)
        yield from ((f"{key}.{at}", one) for at, one in items if isinstance(one, dict))


def _words(value: list[object]) -> list[object]:
    return list(dict.fromkeys(one for one in value if isinstance(one, str)))


def _narrow(schema: Schema) -> None:
    """Make a schema one of an object. Raises ValueError."""
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError("its schema is not that of an object")
    schema["type"] = "object"


def _flat(schema: Schema, root: Schema) -> Schema:
    """Return a schema of an object whose fields stand at its top."""
    found = {key: value for key, value in schema.items() if key not in _AT_TOP}
    whole = list(schema.get("allOf", ()))
    if _held(root, schema.get("$ref")) is not None:
        whole.append({"$ref": found.pop("$ref")})
    words = {key: schema[key] for key in _AT_TOP if key in schema}
    required = list(found.get("required", ()))
    fields: dict[str, dict[str, object]] = {}  # by name, the forms of a field by their JSON
    _add(fields, found)
    for word in ("allOf", *_CHOICES):
        branches = list(_branches(schema.get(word, ()) if word in _CHOICES else whole, root))
        if not branches and word in _CHOICES and word in schema:
            raise ValueError(f"no branch of its {word} is that of an object")
        for branch in branches:
            _add(fields, branch)
        required += _needed(branches) if word in _CHOICES else _wanted(branches)
    if fields:
        found["properties"] = {name: _either(list(forms.values())) for name, forms in fields.items()}
    if required:
        found["required"] = list(dict.fromkeys(required))
    if words:
        told = f"The arguments must fit: {shown(words, _WORDS_CHARS)}"
        found["description"] = f"{found.get('description', '')} {told}".strip()
    return found


def _add(fields: dict[str, dict[str, object]], schema: Schema) -> None:
    for name, field in schema.get("properties", {}).items():
        fields.setdefault(name, {})[json.dumps(field, sort_keys=True)] = field


def _either(forms: list[object]) -> object:
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _branches(given: Iterable[object], root: Schema) -> Iterator[Schema]:
    for one in given:
        branch = one
        if isinstance(one, dict) and isinstance(one.get("$ref"), str):
            held = _held(root, one["$ref"])
            branch = {**held, **one} if isinstance(held, dict) and _meta().is_valid(held) else one
        if branch is True:
            yield {}
        elif isinstance(branch, dict) and _is_of_objects(branch):
            yield _flat(branch, {}) if any(word in branch for word in _AT_TOP) else branch


def _is_of_objects(branch: Schema) -> bool:
    kind = branch.get("type", "object")
    return kind == "object" or (isinstance(kind, list) and "object" in kind)


def _needed(branches: list[Schema]) -> list[str]:
    """Return the fields that every branch needs."""
    counted = Counter(name for branch in branches for name in set(branch.get("required", ())))
    return sorted(name for name, count in counted.items() if count == len(branches))


def _wanted(branches: list[Schema]) -> list[str]:
    return [name for branch in branches for name in branch.get("required", ())]


def _drop_lost_references(schema: Schema) -> list[str]:
    """Leave out references inside the schema that lead nowhere."""
    parts = list(_parts(schema))
    if any("$id" in part for part in parts):  # it says where references begin
        return []
    anchors = {part.get(word) for part in parts for word in ("$anchor", "$dynamicAnchor")}
    lost = []
    for part in parts:
        reference = part.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#") or reference[1:] in anchors:
            continue
        if _held(schema, reference) is None:
            del part["$ref"]
            lost.append(f"the reference {reference:.100}")
    return lost


def _parts(value: object) -> Iterator[Schema]:
    """Yield every object of a value. It is nested at most 64 levels."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(inner)


def _held(root: Schema, reference: object) -> object:
    """Return the part of a schema that a reference leads to; None without one."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    held: Any = root
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            held = held[int(name)] if isinstance(held, list) else held[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return held
