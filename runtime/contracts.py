"""Contracts: the fields that an agent takes as its input, made of a Struct, a dataclass or a pydantic model.

schema     of the fields that callers see, in their order: the input schema of the agent's tool
presets    the fields that its author has set, which no caller sees
a call     checked by the schema, then by the validators of the type, with the presets in it
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.contracts import input_text
from callboard.actors.protocol.errors import InvalidAgent, InvalidPrompt, MissingExtra
from callboard.actors.protocol.immutable import NULL, Json, JsonObject
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.failure_text import failure_text
from callboard.runtime.sanitize import to_json
from callboard.runtime.schemas.output_types import OutputType, TypeForm, flat_schema, form_of, name_of


class _Dataclass(typing.Protocol):
    __dataclass_fields__: typing.ClassVar[dict[str, Any]]


class _PydanticModel(typing.Protocol):
    def model_dump(self) -> JsonObject: ...


Prompt: typing.TypeAlias = (
    str | Sequence[Mapping[str, object]] | Mapping[str, object] | msgspec.Struct | _Dataclass | _PydanticModel
)
"""A text, a list of content blocks, or for an agent with a contract a value of it or a dict of its fields."""

_ADVICE: Final = "pass a msgspec Struct, a dataclass or a pydantic model"
_PROBLEMS_TOLD: Final = 5


class Contract(msgspec.Struct, frozen=True):
    """The input of one agent. agent: its name. kind: the type. schema: of the fields without presets.

    presets: a JSON object, null for none.
    """

    agent: str
    kind: type
    form: TypeForm
    schema: Json
    presets: Json = NULL

    @property
    def type_name(self) -> str:
        """Return the name of the input in the log: of the agent and of the type."""
        # Two agents may have one type with other presets, so the type alone is not enough.
        return f"{self.agent}:{name_of(self.kind)}"

    @property
    def type(self) -> OutputType:
        """Return the type whose validators an input has to pass."""
        return OutputType(self.schema, self.type_name, _WithPresets(self.form, self.schema, self.presets))

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the fields that callers see, in order."""
        schema = msgspec.json.decode(self.schema, type=JsonObject)
        return tuple(schema["properties"])

    def preset(self, agent: str, values: Mapping[str, object]) -> "Contract":
        """Return the contract with these fields set and hidden. agent: its name from now on.

        Raises InvalidAgent for a field that the contract does not have, or a value that it does not take.
        """
        names, hints = _names_of(self.kind), _hints(self.kind)
        done: dict[str, object] = dict(_decoded(self.presets))
        python_names = {field: name for name, field in names.items()}
        for name, value in values.items():
            field = self._known_field(agent, names.get(name, name))
            done[field] = _preset_value(agent, name, value, hints[python_names[field]])
        return replace(self, agent=agent, schema=_without(self.schema, done), presets=to_json(done))

    def _known_field(self, agent: str, name: str) -> str:
        """Return the name of a field that callers see. Raises InvalidAgent for another name."""
        if name in self.fields:
            return name
        raise InvalidAgent(
            f"agent {agent!r}: its contract {name_of(self.kind)} has no field {name!r:.80} to preset; "
            f"there are: {', '.join(self.fields) or 'none'}"
        )

    def given(self, value: object) -> Json:
        """Return a value of the contract, or its fields as a dict, as the arguments of a call.

        Raises InvalidPrompt for another value.
        """
        if not isinstance(value, Mapping | self.kind):
            raise InvalidPrompt(
                f"agent {self.agent!r} takes a {name_of(self.kind)}, or a dict of its fields "
                f"({', '.join(self.fields)}), not {value!r:.80}"
            )
        plain = dict(value) if isinstance(value, Mapping) else self._plain(value)
        return to_json(plain, what="The input")

    def _plain(self, value: object) -> dict[str, object]:
        """Return a value's fields, without those that equal its presets: the type needs them to be built."""
        fields = typing.cast("dict[str, object]", _builtins(value))
        presets = _decoded(self.presets)
        return {name: one for name, one in fields.items() if name not in presets or presets[name] != one}

    def prompt(self, value: object) -> str:
        """Return the prompt of a client's input. Raises InvalidPrompt for one that does not match."""
        given = self.given(value)
        unknown = [name for name in _decoded(given) if name not in self.fields]
        problems = [SchemaProblem(f"/{name}", "is not a field of the contract") for name in unknown]
        if found := problems or self.type.form_problems(given):
            told = "; ".join(map(str, found[:_PROBLEMS_TOLD]))
            raise InvalidPrompt(f"the input of agent {self.agent!r} does not match: {told}")
        return input_text(self.schema, self.presets, given)

    def value_of(self, prompt: str) -> object:
        """Build the value of an input from the prompt that was made of it. Raises InvalidPrompt."""
        try:
            return self.form.build(prompt.encode())
        except Exception as error:  # of msgspec, of pydantic, or of the type's own code
            raise InvalidPrompt(
                f"agent {self.agent!r} takes a {name_of(self.kind)}, and its prompt is none "
                f"({failure_text(error)}); give it a value of that type"
            ) from None


class _WithPresets:
    """A type whose preset fields are put in before its validators run."""

    def __init__(self, form: TypeForm, schema: Json, presets: Json) -> None:
        self._form, self._schema, self._presets = form, schema, presets

    def schema(self) -> dict[str, object]:
        """Return the schema of the fields that callers see."""
        return msgspec.json.decode(self._schema, type=dict[str, object])

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        """Run the validators on the whole input."""
        return self._form.problems(self._whole(report))

    def build(self, report: bytes) -> object:
        """Build the value of the whole input."""
        return self._form.build(self._whole(report))

    def _whole(self, given: bytes) -> bytes:
        return input_text(self._schema, self._presets, Json(given)).encode()


def recorded(contract: Contract | None) -> tuple[Json, str, Json]:
    """Return the schema, the type name and the presets of a contract, as a profile has them."""
    return (NULL, "", NULL) if contract is None else (contract.schema, contract.type_name, contract.presets)


def contract_of(agent: str, given: object) -> Contract:
    """Return the contract of an agent. Raises InvalidAgent for a type that describes no fields."""
    if not isinstance(given, type) or not _has_fields(given):
        raise InvalidAgent(f"agent {agent!r}: input={given!r:.80} has no fields; {_ADVICE}")
    form, schema = _described(agent, given)
    if schema.get("type") != "object":
        raise InvalidAgent(f"agent {agent!r}: input={name_of(given)} is not an object in JSON; {_ADVICE}")
    schema.pop("title", None)
    schema |= {"properties": schema.get("properties", {}), "additionalProperties": False}
    return Contract(agent, given, form, to_json(schema, what="The contract"))


def _described(agent: str, given: type) -> tuple[TypeForm, dict[str, object]]:
    try:
        form = form_of(given)
        return form, flat_schema(form.schema())
    except MissingExtra:
        raise
    except Exception as error:  # of msgspec, of pydantic, or of the type's own code
        raise InvalidAgent(_undescribed(agent, given, error)) from None


def _has_fields(given: type) -> bool:
    is_plain = dataclasses.is_dataclass(given) or issubclass(given, msgspec.Struct)
    return is_plain or hasattr(given, "__pydantic_fields__")


def _undescribed(agent: str, given: type, error: Exception) -> str:
    """Return the words of a contract with a field that JSON cannot carry, with the field's name if known."""
    for name, hint in _hints(given).items():
        try:
            form_of(hint).schema()
        except Exception as found:
            kind = name_of(hint)
            why = f"its type is {kind}: {failure_text(found).splitlines()[0][:200]}"
            return f"agent {agent!r}: field {name!r} of {name_of(given)} has no JSON schema; {why}"
    why = failure_text(error).splitlines()[0][:200]
    return f"agent {agent!r}: input={name_of(given)} has no JSON schema ({why}); {_ADVICE}"


def _hints(kind: type) -> dict[str, object]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # a name that cannot be resolved; the schema has told of it
        return {}


def _names_of(kind: type) -> dict[str, str]:
    """Return the name in JSON of each field of a contract, by its name in Python."""
    if issubclass(kind, msgspec.Struct):
        return {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    fields: Mapping[str, Any] = getattr(kind, "__pydantic_fields__", {})
    if fields:
        return {name: field.validation_alias or field.alias or name for name, field in fields.items()}
    return {field.name: field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # `_has_fields` has seen to it


def _preset_value(agent: str, name: str, value: object, hint: object) -> object:
    plain: object = None
    try:
        plain = _builtins(value)
        problems = form_of(hint).problems(bytes(to_json(plain)))
    except Exception as error:  # of the value's own type
        problems = (SchemaProblem("", failure_text(error)),)
    if problems:
        raise InvalidAgent(f"agent {agent!r}: the preset {name}={value!r:.80} does not fit: {problems[0]}")
    return plain


def _builtins(value: object) -> object:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain_model)


def _plain_model(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json", by_alias=True)


def _decoded(values: Json) -> dict[str, object]:
    return {} if values == NULL else msgspec.json.decode(values, type=dict[str, object])


def _without(schema: Json, names: Mapping[str, object]) -> Json:
    """Return the schema of an object without these fields."""
    fields = msgspec.json.decode(schema, type=JsonObject)
    fields["properties"] = {name: part for name, part in fields["properties"].items() if name not in names}
    required = [name for name in fields.pop("required", []) if name not in names]
    return to_json(fields | ({"required": required} if required else {}))
