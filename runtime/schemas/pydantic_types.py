"""Types that pydantic describes: its models and dataclasses, and types that contain one.

The only module that imports pydantic. It is imported when a caller passes such a type.
"""

from functools import cached_property
from typing import Any, Final

import pydantic
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from callboard.actors.protocol.errors import MissingExtra
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import pointer

_OLDEST: Final = (2, 13)  # the first version whose SchemaValidator knows `_use_prebuilt`
_FUNCTIONS: Final = ("function-before", "function-after", "function-wrap", "function-plain")
_ANY: Final = {"type": "any"}  # in place of a function that wraps no schema
# Values of users under these keys may look like schemas.
_OPAQUE: Final = frozenset({"metadata", "serialization", "cls", "default", "expected", "members"})


class PydanticForm:
    """A type as pydantic sees it. Reports use the aliases of its fields."""

    def __init__(self, kind: Any) -> None:
        if tuple(map(int, pydantic.VERSION.split(".")[:2])) < _OLDEST:
            raise MissingExtra(
                f"pydantic {pydantic.VERSION} is too old for typed results: pip install 'callboard[pydantic]'"
            )
        self._adapter: TypeAdapter[object] = TypeAdapter(kind)

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of reports. Raises PydanticUserError for a type that JSON cannot carry."""
        return self._adapter.json_schema(by_alias=True, mode="validation")

    def problems(self, report: bytes) -> tuple[SchemaProblem, ...]:
        """Return the problems of a report that a validator refuses."""
        return self.read(report)[1]

    def read(self, text: bytes) -> tuple[object, tuple[SchemaProblem, ...]]:
        """Return the value of a JSON text, with the problems that validators have with it."""
        try:
            return self._adapter.validate_json(text), ()
        except ValidationError as refused:
            errors = refused.errors(include_url=False, include_context=False, include_input=False)
            return None, tuple(SchemaProblem(pointer(each["loc"]), each["msg"]) for each in errors)

    def build(self, report: bytes) -> object:
        """Build the value of a report, without the validators of users."""
        return self._builder.validate_json(report)

    @cached_property
    def _builder(self) -> SchemaValidator:
        # `model_construct` leaves inner models, dates and enums as JSON gives them. pydantic's own steps from
        # JSON to the fields' types, without users' functions, fill all of them. A model that is complete
        # would bring its own validator, functions and all, unless `_use_prebuilt` is off.
        return SchemaValidator(_without_functions(self._adapter.core_schema), _use_prebuilt=False)


def _without_functions(schema: object) -> Any:
    """Return a core schema in which the functions of users are replaced by the schemas that they wrap."""
    if isinstance(schema, list | tuple):
        return type(schema)(map(_without_functions, schema))
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in _FUNCTIONS and not _is_pydantics_own(schema["function"]):
        return _as_place(schema, _without_functions(schema.get("schema", _ANY)))
    kept = {key: part if key in _OPAQUE else _without_functions(part) for key, part in schema.items()}
    return {**kept, "custom_init": False} if "custom_init" in kept else kept


def _is_pydantics_own(step: object) -> bool:
    """Return True for a function of pydantic itself: it makes a `Path`, an `HttpUrl`, an `IPv4Address`."""
    function = step["function"] if isinstance(step, dict) else step
    function = getattr(function, "func", function)  # of a partial
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("pydantic", "pydantic_core")


def _as_place(outer: JsonObject, inner: Any) -> Any:
    """Return the inner schema under the outer one's `ref`, by which other parts refer to it."""
    if "ref" not in outer:
        return inner
    if "ref" in inner:
        return {"type": "chain", "steps": [inner], "ref": outer["ref"]}
    return {**inner, "ref": outer["ref"]}
