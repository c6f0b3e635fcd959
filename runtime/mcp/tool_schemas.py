"""The schema of a tool's arguments, mended where a service would refuse the whole request for it.

A service refuses a request for one schema that it does not take, and with it all the other tools. So a schema
is made wider, never narrower, until services take it; the server still checks the arguments.

no schema, or `true`                  an object with any fields
no `type` at its top                  an object
a keyword with a value that JSON
  Schema does not allow               left out: `"type": "text"`, `"required": true`, `"properties": null`
anyOf, oneOf or allOf at its top      the fields of all its branches, and its words in the description
not, if, enum, const at its top       the same
a reference inside that leads nowhere left out
of anything but an object, `false`    refused
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec

from callboard.runtime.mcp.foreign_json import shown
from callboard.runtime.sanitize import to_json

Schema = dict[str, Any]

_ROUNDS: Final = 10  # a value that is left out may uncover another fault
_WORDS_CHARS: Final = 1_000
_CHOICES: Final = ("anyOf", "oneOf")
_AT_TOP: Final = (*_CHOICES, "allOf", "not", "if", "then", "else", "enum", "const")
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


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
        raise ValueError(f"its schema is no object: {shown(given, 100)}")
    schema: Schema = msgspec.json.decode(bytes(to_json(given, what="its schema")))
    mended = _drop_faults(schema)
    _narrow(schema)
    if at_top := [word for word in _AT_TOP if word in schema]:
        schema = _flat(schema, schema)
        mended.append(f"{', '.join(at_top)} at its top")
    mended += _drop_lost_references(schema)
    return schema, mended


@cache
def _meta() -> jsonschema_rs.Draft202012Validator:
    address = "https://json-schema.org/draft/2020-12/schema"
    return jsonschema_rs.Draft202012Validator({"$ref": address}, offline=True)


def _drop_faults(schema: Schema) -> list[str]:
    """Leave out the values that JSON Schema does not allow. Return their places. Raises ValueError."""
    dropped: list[str] = []
    for _ in range(_ROUNDS):
        if _meta().is_valid(schema):
            return dropped
        paths = {tuple(error.instance_path) for error in _meta().iter_errors(schema)}
        for path in sorted(paths, reverse=True):  # the later items of a list first
            if path and _drop(schema, path):
                dropped.append(f"the value of {'.'.join(map(str, path))}")
    raise ValueError("it is no JSON Schema")


def _drop(schema: Schema, path: tuple[str | int, ...]) -> bool:
    *steps, last = path
    held: Any = schema
    for step in steps:
        try:
            held = held[step]
        except (KeyError, IndexError, TypeError):
            return False  # it went with something around it
    is_place = len(path) > 1 and path[-2] in (_NAMED if isinstance(held, dict) else _LISTS)
    try:
        if is_place:  # the field stays, of any type
            held[last] = {}
        else:
            del held[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _narrow(schema: Schema) -> None:
    """Make a schema one of an object. Raises ValueError."""
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise ValueError("its schema is not that of an object")
    schema["type"] = "object"


def _flat(schema: Schema, root: Schema) -> Schema:
    """Return a schema of an object whose fields stand at its top."""
    found = {key: value for key, value in schema.items() if key not in _AT_TOP}
    words = {key: schema[key] for key in _AT_TOP if key in schema}
    fields: Schema = dict(found.get("properties", {}))
    required = list(found.get("required", ()))
    for word in ("allOf", *_CHOICES):
        if word not in schema:
            continue
        branches = list(_branches(schema[word], root))
        if not branches and word in _CHOICES:
            raise ValueError(f"no branch of its {word} is that of an object")
        for branch in branches:
            for name, field in branch.get("properties", {}).items():
                fields[name] = _either(fields[name], field) if name in fields else field
        required += _needed(branches, is_choice=word in _CHOICES)
    if fields:
        found["properties"] = fields
    if required:
        found["required"] = list(dict.fromkeys(required))
    found["description"] = (
        f"{found.get('description', '')} The arguments must fit: {shown(words, _WORDS_CHARS)}".strip()
    )
    return found


def _branches(given: object, root: Schema) -> Iterator[Schema]:
    for one in cast(list[object], given):
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


def _needed(branches: list[Schema], *, is_choice: bool) -> list[str]:
    """Return the fields that all branches need, or that any of them needs."""
    needed = [branch.get("required", []) for branch in branches]
    if not is_choice:
        return [name for names in needed for name in names]
    return [name for name in needed[0] if all(name in names for names in needed)]


def _either(one: object, other: object) -> object:
    if one == other:
        return one
    parts = one["anyOf"] if isinstance(one, dict) and one.keys() == {"anyOf"} else [one]
    return {"anyOf": parts if other in parts else [*parts, other]}


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


def _held(root: Schema, reference: str) -> object:
    """Return the part of a schema that a reference leads to; None without one."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    held: Any = root
    for step in unquote(reference[2:]).split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            held = held[int(name)] if isinstance(held, list) else held[name]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return held
