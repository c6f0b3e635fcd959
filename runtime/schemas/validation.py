"""Words for reports and schemas that jsonschema-rs found invalid, from jsonschema (draft 2020-12)."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeAlias

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.compiled import Unfit, compile_keyword
from callboard.runtime.schemas.explain import bounded, problems_of
from callboard.runtime.schemas.json_text import ERRORS_READ_MAX, canonical, names, pointer, problem
from callboard.runtime.schemas.subschema_index import PLACES, Place

Errors: TypeAlias = Iterator[ValidationError]
Schema: TypeAlias = Mapping[str, Mapping[str, object]]  # as far as the keywords here look into it

_LONG_CHARS: Final = 100
# Advice for keywords that earlier drafts wrote otherwise.
_HINTS: Final = {
    "items": "; write prefixItems for one schema per position",
    "required": "; in an object's schema, list the required names",
    "exclusiveMinimum": "; true and false were draft 4",
    "exclusiveMaximum": "; true and false were draft 4",
}


class Validator(Protocol):
    """The part of jsonschema's validator that is used here."""

    def iter_errors(self, instance: object) -> Errors:
        """Yield the errors of a value."""

    def descend(self, instance: object, schema: object, path: str | int | None = None) -> Errors:
        """Yield the errors of a value under a subschema."""


def report_problems(
    validator: jsonschema_rs.Draft202012Validator, schema: dict[str, object] | None, value: object
) -> tuple[SchemaProblem, ...]:
    """Return why a value does not match, by jsonschema if the schema is given and it finds a reason."""
    # The registry retrieves nothing; jsonschema's default one would fetch http and file addresses.
    checker = None if schema is None else _CHECKER(_quiet(schema, "one"), registry=Registry())
    if checker is not None and (worded := _problems(checker, value)):
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
        compile_keyword("pattern", pattern)
    except Unfit:
        return "is not a regular expression that can be used (ECMA-262, of bounded size)"
    return ""


def _problems(validator: Validator, value: object) -> tuple[SchemaProblem, ...]:
    return problems_of(islice(validator.iter_errors(_quiet(value)), ERRORS_READ_MAX))


# --- values that jsonschema shows in no message ----------------------------------------
# It puts the `repr` of every value into its errors: a thousand about one large value are gigabytes.


class _QuietDict(dict[str, object]):
    def __repr__(self) -> str:
        return "{...}"


class _QuietList(list[object]):
    def __repr__(self) -> str:
        return "[...]"


class _QuietStr(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return "'...'"


def _quiet(value: object, place: Place | None = None) -> object:
    """Copy a value so that all its parts have a short `repr`. place: its subschemas; None if it is data."""
    if value is False and place == "one":
        return _QuietDict({"not": _QuietDict()})  # for `false` jsonschema forgets to say where it was
    if isinstance(value, dict) and place == "one":
        # A `$schema` would change to jsonschema's own keywords.
        return _QuietDict({k: _quiet(each, _place(k, each)) for k, each in value.items() if k != "$schema"})
    inner: Place | None = "one" if place in ("list", "map") else None
    if isinstance(value, dict):
        return _QuietDict({name: _quiet(each, inner) for name, each in value.items()})
    if isinstance(value, list):
        return _QuietList([_quiet(each, inner) for each in value])
    return _QuietStr(value) if isinstance(value, str) and len(value) > _LONG_CHARS else value


def _place(keyword: str, value: object) -> Place | None:
    # With `false` these two have words of their own.
    return None if value is False and keyword in ("items", "additionalProperties") else PLACES.get(keyword)


# --- keywords that jsonschema's own functions do not do well enough --------------------


def _fits(keyword: str, wanted: object, value: object) -> bool:
    """Ask jsonschema-rs about a string or a number."""
    # It takes no subclass of str.
    plain, wanted = (str.__str__(each) if isinstance(each, str) else each for each in (value, wanted))
    assert isinstance(wanted, str | int | float)
    return compile_keyword(keyword, wanted).is_valid(plain)


def _pattern(_: Validator, pattern: object, value: object, __: Schema) -> Errors:
    # Python's own `re` differs from ECMA-262, and `^(a+)+$` on 28 letters takes it 35 s.
    if isinstance(value, str) and not _fits("pattern", pattern, value):
        yield ValidationError("")


def _multiple_of(_: Validator, step: object, value: object, __: Schema) -> Errors:
    # jsonschema divides doubles: 19.99 is not a multiple of 0.01, and 10**400 raises OverflowError.
    if isinstance(value, int | float) and not _fits("multipleOf", step, value):
        yield ValidationError("")


def _pattern_properties(validator: Validator, _: object, value: object, schema: Schema) -> Errors:
    if isinstance(value, dict):
        for pattern, subschema in schema["patternProperties"].items():
            for name, each in value.items():
                if _fits("pattern", pattern, name):
                    yield from validator.descend(each, subschema, path=name)


def _additional_properties(validator: Validator, subschema: object, value: object, schema: Schema) -> Errors:
    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    others = [name for name in value if name not in known]
    extras = [name for name in others if not any(_fits("pattern", each, name) for each in patterns)]
    if subschema is not False:
        for name in extras:
            yield from validator.descend(value[name], subschema, path=name)
    elif extras:
        noun = "unknown property" if len(extras) == 1 else "unknown properties"
        allowed = f"allowed are {names(known)}" if known else "none is allowed"
        yield ValidationError(f"{noun} {names(extras)}: {allowed}")


def _property_names(validator: Validator, subschema: object, value: object, _: Schema) -> Errors:
    # jsonschema's errors do not say which name.
    for name in value if isinstance(value, dict) else ():
        if errors := list(validator.descend(_quiet(name), subschema)):
            yield ValidationError("", context=errors)


def _unique_items(_: Validator, is_asked: object, value: object, __: Schema) -> Errors:
    # jsonschema compares every pair: 16.5 s for 3,000 small objects.
    first: dict[str, int] = {}
    for index, each in enumerate(value if is_asked and isinstance(value, list) else ()):
        if (other := first.setdefault(canonical(each), index)) != index:
            yield ValidationError(f"items must all be different, but items {other} and {index} are equal")
            return


_CHECKER: Final = extend(
    Draft202012Validator,
    validators={
        "pattern": _pattern,
        "multipleOf": _multiple_of,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "propertyNames": _property_names,
        "uniqueItems": _unique_items,
    },
)
