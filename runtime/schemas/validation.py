"""Words for reports and schemas that jsonschema-rs found invalid, from jsonschema (draft 2020-12)."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.compiled import Unfit, expression
from callboard.runtime.schemas.explain import bounded, problems_of
from callboard.runtime.schemas.json_text import pointer
from callboard.runtime.schemas.keywords import KEYWORDS
from callboard.runtime.schemas.limits import ERRORS_READ_MAX
from callboard.runtime.schemas.subschema_index import PLACES
from callboard.runtime.schemas.wording import problem

_LONG_CHARS: Final = 100

_WITH_WORDS_FOR_FALSE: Final = frozenset({"items", "additionalProperties"})
_HINTS: Final = {
    "items": "; write prefixItems for one schema per position",
    "required": "; in an object's schema, list the required names",
    "exclusiveMinimum": "; true and false were draft 4",
    "exclusiveMaximum": "; true and false were draft 4",
}
"""Advice for keywords that earlier drafts wrote otherwise."""


class Errors(Protocol):
    """A validator of jsonschema."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """Yield the errors of a value."""


_CHECKER = extend(Draft202012Validator, validators=KEYWORDS)


def report_problems(
    validator: jsonschema_rs.Draft202012Validator, schema: dict[str, object] | None, value: object
) -> tuple[SchemaProblem, ...]:
    """Return why a value does not match, by jsonschema if the schema is given and it finds a reason."""
    # The registry retrieves nothing; jsonschema's default one would fetch http and file addresses.
    worded = _problems(_CHECKER(_prepared(schema), registry=Registry()), value) if schema is not None else ()
    if worded:
        return worded
    errors = islice(validator.iter_errors(value), ERRORS_READ_MAX)
    return bounded(problem(pointer(each.instance_path), each.message) for each in errors)


def schema_problems(
    schema: dict[str, object], patterns: Sequence[tuple[str, str]], otherwise: str
) -> tuple[SchemaProblem, ...]:
    """Return why a schema is refused. patterns: with their places. otherwise: said if nothing is found."""
    found = _problems(Draft202012Validator(Draft202012Validator.META_SCHEMA, registry=Registry()), schema)
    hinted = [problem(one.path, one.message + _HINTS.get(one.path.rpartition("/")[2], "")) for one in found]
    unfit = [problem(path, why) for path, pattern in patterns if (why := _why_unfit(pattern))]
    return tuple(hinted or unfit) or (problem("", otherwise),)


def _why_unfit(pattern: str) -> str:
    try:
        expression(pattern)
    except Unfit:
        return "is no regular expression that can be used (ECMA-262, of bounded size)"
    return ""


def _problems(validator: Errors, value: object) -> tuple[SchemaProblem, ...]:
    return problems_of(list(islice(validator.iter_errors(_quiet(value)), ERRORS_READ_MAX)))


class _QuietDict(dict[str, object]):
    # jsonschema puts the repr of every value into its errors: a thousand about one large value are gigabytes.
    def __repr__(self) -> str:
        return "{...}"


class _QuietList(list[object]):
    def __repr__(self) -> str:
        return "[...]"


class _QuietStr(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def _quiet(value: object) -> object:
    """Copy a value so that all its parts have a short `repr`."""
    if isinstance(value, dict):
        return _QuietDict({name: _quiet(each) for name, each in value.items()})
    if isinstance(value, list):
        return _QuietList([_quiet(each) for each in value])
    return _QuietStr(value) if isinstance(value, str) and len(value) > _LONG_CHARS else value


def _prepared(schema: object) -> object:
    """Copy a subschema, quietly, without two things that jsonschema does not do well."""
    if schema is False:
        return _QuietDict({"not": _QuietDict()})  # for `false` it forgets to say where it was
    if not isinstance(schema, dict):
        return schema
    prepared = _QuietDict()
    for keyword, value in schema.items():
        if keyword == "$schema":
            continue  # it would change to its own validator, which searches with Python's `re`
        prepared[keyword] = _subschemas(keyword, value)
    return prepared


def _subschemas(keyword: str, value: object) -> object:
    place = PLACES.get(keyword)
    if place == "list" and isinstance(value, list):
        return _QuietList([_prepared(each) for each in value])
    if place == "map" and isinstance(value, dict):
        return _QuietDict({name: _prepared(each) for name, each in value.items()})
    if place == "one" and not (value is False and keyword in _WITH_WORDS_FOR_FALSE):
        return _prepared(value)
    return _quiet(value)
