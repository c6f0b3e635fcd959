"""Contracts: agents that a model calls as a tool of their own, and the prompt that comes of their input.

    the tool      named as the agent; its input schema is that of the contract, without the preset fields
    the prompt    one JSON object, indented by two: the presets, then the fields in the contract's order

Rules
  - A field that the call leaves out has the default of the schema, if that states one.
  - Fields that the contract does not know stand last. Its check refuses them.
  - A preset is no field of the tool, so a call that names one is refused.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from callboard.actors.protocol.immutable import NULL, Json, Part
from callboard.actors.protocol.profiles import SCHEMA_ARG, Profile

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Callee(Part, frozen=True):
    """An agent that its caller does not call as any other.

    input_schema: of its tool, null if `task` starts it. presets: the fields that no caller sees, as a JSON
    object. schema_arg: the argument that holds the schema of its report, empty for none.
    """

    name: str
    input_schema: Json = NULL
    presets: Json = NULL
    schema_arg: str = SCHEMA_ARG

    @property
    def is_tool(self) -> bool:
        """Return True if the agent is a tool of its own."""
        return self.input_schema != NULL


def callees_of(profiles: Sequence[Profile]) -> tuple[Callee, ...]:
    """Return the agents among these that are not called as any other."""
    found = (Callee(one.name, one.input_schema, one.presets, one.schema_arg) for one in profiles)
    return tuple(one for one in found if one != Callee(one.name))


def input_text(input_schema: Json, presets: Json, given: Json) -> str:
    """Return the prompt of an agent with a contract. given: the arguments of the call, a JSON object."""
    fields = dict(_fields(bytes(presets)))
    arguments = _FIELDS.decode(given)
    for name, default in _defaults(bytes(input_schema)).items():
        value = arguments.pop(name, default)
        if value is not None and name not in fields:
            fields[name] = value
    for name, value in arguments.items():
        fields.setdefault(name, value)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2).decode()


def input_prompt(input_schema: Json, presets: Json, given: Json) -> Json:
    """Return the prompt of an agent with a contract, as JSON."""
    return Json(msgspec.json.encode(input_text(input_schema, presets, given)))


def schema_in(given: Json, name: str) -> Json:
    """Return the schema that a call gives in this argument; null for none."""
    return Json(_FIELDS.decode(given).get(name, NULL)) if name else NULL


@lru_cache(maxsize=1_024)
def _fields(raw: bytes) -> dict[str, msgspec.Raw]:
    return {} if raw == b"null" else _FIELDS.decode(raw)


@lru_cache(maxsize=1_024)
def _defaults(input_schema: bytes) -> dict[str, msgspec.Raw | None]:
    """Return the fields of a contract in order, each with its default; None without one."""
    properties = _fields(bytes(_fields(input_schema).get("properties", NULL)))
    return {name: _default(bytes(part)) for name, part in properties.items()}


def _default(part: bytes) -> msgspec.Raw | None:
    try:
        return _FIELDS.decode(part).get("default")
    except msgspec.ValidationError:  # `true`, a schema that takes any value
        return None
