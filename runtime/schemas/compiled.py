"""jsonschema-rs: schemas compiled, 0.8 us for a small report with one regular expression, and errors read.

It holds the interpreter while it works and cannot be stopped, so the event loop asks it only for checks
that step_budget.py calls cheap. By default it fetches `http` and `file` addresses; here it is offline.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from jsonschema_rs import (
    Draft202012Validator,
    FancyRegexOptions,
    ReferencingError,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
)

from callboard.runtime.schemas.limits import INLINE_PATTERN_BYTES
from callboard.runtime.schemas.subschema_index import PLACES

Path: TypeAlias = tuple[str | int, ...]

UNKNOWN: Final = object()  # what an error does not tell

# Regular expressions that take time linear in the text: neither look-around nor back-references.
_LINEAR: Final = RegexOptions(size_limit=INLINE_PATTERN_BYTES, dfa_size_limit=5 * INLINE_PATTERN_BYTES)

# A search that reaches the backtrack limit counts as "no match", which `not` turns into a match:
# the worker's time ends it instead.
_ANY: Final = FancyRegexOptions(backtrack_limit=sys.maxsize)


class Unfit(ValueError):
    """jsonschema-rs cannot use this schema; the message says why."""


def compile_schema(schema: dict[str, object], *, is_linear: bool) -> Draft202012Validator:
    """Compile a schema. Raises Unfit. is_linear: refuse every expression that may take long."""
    try:
        return Draft202012Validator(
            schema,
            validate_formats=False,  # annotations in this draft
            mask="the value",  # messages must not grow with the value
            offline=True,
            pattern_options=_LINEAR if is_linear else _ANY,
        )
    except (ValueError, ReferencingError) as error:
        raise Unfit(str(error).partition("\n")[0]) from None


@dataclass(frozen=True, slots=True)
class Fault:
    """One error. keyword: "false" for the schema `false`.

    wanted: the keyword's value; UNKNOWN at times. beside: the subschema that holds the keyword, {} if it is
    not known. told: the same as the error tells it, such as the names that are not allowed.
    value: the part of the report. branches: for each alternative of `anyOf` or `oneOf` its errors.
    message: the error in the words of jsonschema-rs.
    """

    path: Path
    keyword: str
    wanted: object
    beside: Mapping[str, object]
    told: object
    value: object
    message: str
    branches: "list[list[Fault]]"


def faults_of(
    errors: Iterable[ValidationError], schema: Mapping[str, object] | None, value: object
) -> list[Fault]:
    """Return the errors of a value. schema: None if places in it are not known."""
    return [_fault(error, schema, value) for error in errors]


def _fault(error: ValidationError, schema: Mapping[str, object] | None, root: object) -> Fault:
    path, where, kind = tuple(error.instance_path), error.schema_path, error.kind
    keyword, value, told = _keyword(where), _at(root, path), UNKNOWN
    branches: list[list[Fault]] = []
    match kind:
        case ValidationErrorKind.FalseSchema() if keyword == "items":
            path, value = path[:-1], _at(root, path[:-1])  # a problem of the array, not one of each item
        case ValidationErrorKind.FalseSchema() if keyword == "additionalProperties":
            told = value
        case ValidationErrorKind.FalseSchema():
            keyword, told = "false", False
        case ValidationErrorKind.PropertyNames(inner):
            keyword, told = "propertyNames", replace(_fault(inner, schema, root), value=inner.instance)
        case ValidationErrorKind.AnyOf(context) | ValidationErrorKind.OneOfNotValid(context):
            branches = [faults_of(each, schema, root) for each in context]
        case _:
            told = next(iter(kind.as_dict().values()), UNKNOWN)
    holder = _at(schema, where[:-1])
    beside = holder if isinstance(holder, Mapping) and keyword in where[-1:] else {}
    # The schema's own text goes first: the error has a copy, with lists in another order.
    return Fault(path, keyword, beside.get(keyword, told), beside, told, value, error.message, branches)


def _keyword(where: Sequence[str | int]) -> str:
    """Return the keyword at the end of a path in a schema; nothing if a name or an index ends it."""
    found, steps = "", iter(where)
    for step in steps:
        found = str(step)
        if PLACES.get(found) in ("map", "list") and next(steps, None) is not None:
            found = ""
    return found


def _at(root: object, path: Sequence[str | int]) -> object:
    """Return the part of a JSON value at a path; None if there is none."""
    for key in path:
        if isinstance(root, Mapping):
            root = root.get(key)
        else:
            root = root[key] if isinstance(root, list) and isinstance(key, int) and key < len(root) else None
    return root
