"""Output types: the value of `output_schema` as a JSON schema, a name, validators and a builder.

    a JSON schema as a dict                          no name; a report becomes plain Python values
    a pydantic model, or a type with one inside      described, validated and built by pydantic
    a dataclass, Struct, TypedDict, `list[int]` ...  described, validated and built by msgspec

The schema and the name stand in the log, the type only in the program. A report that passes the schema goes
through the type's validators once, in the `schema` port. The value of an outcome is built from the report
that passed, without validators, so that a process which resumes the session needs no second verdict.

Types that msgspec describes: dataclasses, Structs, TypedDicts, lists, dicts, unions, literals and numbers.

Their validators are the bounds in `Meta` and the type's own `__post_init__`, which runs when the value is
built, too: it is part of the construction.
"""

import re
import types
import typing
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from callboard.actors.protocol.errors import InvalidPrompt, InvalidSchema, MissingExtra, MissingType
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.failure_text import failure_text
from callboard.runtime.sanitize import clean_text, to_json
from callboard.runtime.schemas.json_text import pointer

if TYPE_CHECKING:
    from callboard.runtime.schemas.pydantic_types import PydanticForm

_DEFS: Final = "#/$defs/"
_UNIONS: Final = (typing.Union, types.UnionType)
_SHORT: Final[dict[object, str]] = {None: "None", types.NoneType: "None", Ellipsis: "..."}
_BARE_MODULES: Final = ("builtins", "typing")
_ADVICE: Final = (
    "pass a JSON schema as a dict, a pydantic model, a dataclass, a msgspec Struct, or a type "
    "such as list[int]"
)
_WHY_CHARS: Final = 300
_REMEMBERED: Final = 256  # types whose schema is kept; to make one takes pydantic milliseconds
# msgspec writes the place at the end: "Expected `int`, got `str` - at `$.items[0].size`".
_PLACE: Final = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


class TypeForm(Protocol):
    """A Python type, as the library that describes it sees it."""

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of reports. Raises the errors of the library unchanged."""
        ...

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        """Run the validators on a report that fits the schema. Raises what a validator raises by mistake."""
        ...

    def build(self, report: bytes) -> object:
        """Build the value of a report that passed the validators, without them."""
        ...


class OutputType(msgspec.Struct, frozen=True):
    """A given `output_schema`. schema: null for text. name: of the Python type, empty for a plain schema."""

    schema: Json = NULL
    name: str = ""
    form: TypeForm | None = None

    def form_problems(self, value: Json) -> tuple[SchemaProblem, ...]:
        """Return the problems that the type itself has with a value."""
        return () if self.form is None else self.form.problems(bytes(value))

    def build(self, report: Json) -> object:
        """Build the value of a report that passed. Raises MissingType if the type has changed since."""
        if self.form is None:
            return msgspec.json.decode(report)
        try:
            return self.form.build(bytes(report))
        except Exception as error:
            raise MissingType(
                f"a recorded report does not fit {self.name} as that is now ({_why(error)}); pass the type "
                "as it was when the report was accepted",
                (self.name,),
            ) from None


NO_TYPE: Final = OutputType()
"""No `output_schema`: the result is text."""


def output_type(given: object) -> OutputType:
    """Return the output type of a given `output_schema`; None stands for none.

    Raises InvalidSchema for a type without a JSON schema, or one that only its function can name.
    """
    if given is None:
        return NO_TYPE
    if isinstance(given, OutputType):
        return given
    if isinstance(given, Mapping):
        return OutputType(_written(dict(given), "The output schema"))
    try:
        hash(given)
    except TypeError:  # Annotated[int, [...]]
        return _described(given)
    return _remembered(given)


def _described(given: object) -> OutputType:
    name = name_of(given)
    if "<locals>" in name:
        raise InvalidSchema(
            f"output_schema={name}: a type that is defined inside a function cannot be found again when the "
            "session is resumed; define it at the top of a module"
        )
    try:
        form = form_of(given)
        schema = form.schema()
    except MissingExtra:
        raise
    except Exception as error:  # of msgspec, of pydantic, or of the type's own code
        raise InvalidSchema(
            f"output_schema={name}: no JSON schema describes it ({_why(error)}); {_ADVICE}"
        ) from None
    return OutputType(_written(flat_schema(schema), f"The JSON schema of {name}"), name, form)


_remembered = lru_cache(_REMEMBERED)(_described)


def _why(error: Exception) -> str:
    """Return the last line of an error, without pydantic's link."""
    # msgspec's first lines are about its hooks.
    lines = [line for line in failure_text(error).splitlines() if line and "https://" not in line]
    return clean_text(lines[-1] if lines else type(error).__name__)[:_WHY_CHARS]


def _written(schema: dict[str, object], what: str) -> Json:
    try:
        return to_json(schema, what=what)
    except InvalidPrompt as error:
        raise InvalidSchema(str(error)) from None


def form_of(kind: object) -> TypeForm:
    """Return a type as the library that describes it sees it."""
    return pydantic_form(kind) or MsgspecForm(kind)


def pydantic_form(kind: object) -> "PydanticForm | None":
    """Return a type as pydantic sees it; None if no part of it is a model or dataclass of pydantic."""
    if not any(hasattr(part, "__pydantic_validator__") for part in _parts(kind, set())):
        return None
    from callboard.runtime.schemas.pydantic_types import PydanticForm  # pydantic is the user's choice

    return PydanticForm(kind)


def _parts(kind: object, seen: set[int]) -> Iterator[object]:
    """Yield a type and all types inside it: arguments, and the annotations of fields."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    yield kind
    for part in _inner(kind):
        yield from _parts(part, seen)


def _inner(kind: object) -> list[object]:
    """Return the types directly inside a type."""
    inner = [*typing.get_args(kind), typing.get_origin(kind)]
    if not isinstance(kind, type) or kind.__module__ in _BARE_MODULES:
        return inner
    try:
        return [*inner, *typing.get_type_hints(kind, include_extras=True).values()]
    except Exception:  # a name that cannot be resolved; the library says so in better words
        return []


def flat_schema(schema: dict[str, object]) -> dict[str, object]:
    """Return a schema whose top is not a reference: an object there is a report tool's input as it is."""
    reference, parts = schema.get("$ref"), schema.get("$defs")
    if not isinstance(reference, str) or not isinstance(parts, dict) or len(schema) > 2:
        return schema
    name = reference.removeprefix(_DEFS)
    inner = parts.get(name)
    if not isinstance(inner, dict):
        return schema
    if msgspec.json.encode(reference) not in msgspec.json.encode(parts):  # it does not contain itself
        parts = {key: part for key, part in parts.items() if key != name}
    return {**inner, "$defs": parts} if parts else inner


def name_of(kind: object) -> str:
    """Return the name of a type, as the log holds it: `module.Qualname`, with the names of its arguments.

    >>> name_of(list[int]), name_of(int | None)
    ('list[int]', 'int | None')
    """
    if model := getattr(kind, "__pydantic_generic_metadata__", {}).get("origin"):
        return _with_arguments(model, getattr(kind, "__pydantic_generic_metadata__", {})["args"])
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return name_of(arguments[0])
    if origin in _UNIONS:
        return " | ".join(map(name_of, arguments))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    return _plain_name(kind) if origin is None else _with_arguments(origin, arguments)


def _with_arguments(origin: object, arguments: tuple[object, ...]) -> str:
    return f"{name_of(origin)}[{', '.join(map(name_of, arguments))}]"


def _plain_name(kind: object) -> str:
    if isinstance(kind, Hashable) and kind in _SHORT:
        return _SHORT[kind]
    name = getattr(kind, "__qualname__", "") or getattr(kind, "__name__", "")
    module = getattr(kind, "__module__", "")
    if not isinstance(name, str) or not name:
        return clean_text(f"{kind!r:.80}")
    return name if module in _BARE_MODULES or not module else f"{module}.{name}"


class MsgspecForm:
    """A type as msgspec sees it."""

    def __init__(self, kind: object) -> None:
        self._kind = kind
        self._decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder(kind)

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of reports. Raises TypeError for a type that msgspec does not know."""
        schema = msgspec.json.schema(self._kind)
        parts: dict[str, dict[str, object]] = schema.get("$defs", {})
        for part in (schema, *parts.values()):
            if isinstance(text := part.get("description"), str):
                # Before Python 3.13 a docstring keeps its indentation, which models would pay for.
                part["description"] = cleandoc(text)
        return schema

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        """Return the problem of a report that msgspec or the type's `__post_init__` refuses."""
        try:
            self._decoder.decode(report)
        except msgspec.ValidationError as error:
            return (_problem_of(str(error)),)
        return ()

    def build(self, report: bytes) -> object:
        """Build the value of a report."""
        return self._decoder.decode(report)


def _problem_of(text: str) -> SchemaProblem:
    found = _PLACE.search(text)
    if found is None:
        return SchemaProblem("", text)
    steps = (name or index for name, index in _STEP.findall(found["path"]))
    return SchemaProblem(pointer(steps), text[: found.start()])
