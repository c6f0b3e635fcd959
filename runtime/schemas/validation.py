"""Words for reports and schemas that jsonschema-rs found invalid, from jsonschema (draft 2020-12).

Its errors become problems that a model can act on: the place, the wanted value, the given one. For `anyOf`
and `oneOf` the alternative that the value comes closest to is explained, not all of them: the one of the
right type, then the one whose tag (a `const` or `enum` directly beneath) fits, then the one with the fewest
errors, then the first. If no type or no tag fits, all of them are named. Problems nearer to the root come
first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeAlias

import jsonschema_rs
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.compiled import Unfit, compile_keyword
from callboard.runtime.schemas.json_text import (
    ERRORS_READ_MAX,
    PROBLEMS_MAX,
    canonical,
    count,
    listing,
    names,
    pointer,
    problem,
    show,
)
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


Path: TypeAlias = tuple[str | int, ...]
Found: TypeAlias = tuple[Path, str]
Words: TypeAlias = Callable[[ValidationError], str]

_CLOSEST: Final = " (closest of the"


def problems_of(errors: Iterable[ValidationError]) -> tuple[SchemaProblem, ...]:
    """Return the problems of these errors, most general first, within the bounds."""
    found = [each for error in errors for each in _found((), error)]
    found.sort(key=lambda each: len(each[0]))  # stable: errors of one level keep the schema's order
    return bounded(problem(pointer(path), text) for path, text in found)


def bounded(problems: Iterable[SchemaProblem]) -> tuple[SchemaProblem, ...]:
    """Leave out repeated problems, and those beyond the bound."""
    distinct = list(dict.fromkeys(problems))
    if len(distinct) > PROBLEMS_MAX:
        distinct[PROBLEMS_MAX - 1 :] = [problem("", "there are more problems than these: fix these first")]
    return tuple(distinct)


def _found(above: Path, error: ValidationError) -> list[Found]:
    """Return the places and messages of one error; several if it is an alternative that nearly fits."""
    path = (*above, *error.relative_path)
    if error.validator in ("anyOf", "oneOf") and error.context:
        return _alternative(path, error)
    make = _TEXTS.get(error.validator)
    return [(path, error.message if make is None else make(error))]


def _alternative(path: Path, error: ValidationError) -> list[Found]:
    branches: dict[object, list[ValidationError]] = {}
    for each in error.context:
        branches.setdefault(each.relative_schema_path[0], []).append(each)
    right_type = [errors for errors in branches.values() if not any(map(_is_wrong_type, errors))]
    if not right_type:
        wanted = dict.fromkeys(
            kind for each in error.context if _is_wrong_type(each) for kind in _types(each)
        )
        return [(path, _wanted(wanted, error.instance))]
    if tagged := _other_tag(path, right_type):
        return [tagged]
    closest = min(right_type, key=lambda errors: (any(map(_is_tag, errors)), len(errors)))
    found = [each for inner in closest for each in _found(path, inner)]
    if len(right_type) == 1:
        return found
    note = f"{_CLOSEST} {len(branches)} alternatives of {error.validator})"
    return [(where, text if _CLOSEST in text else text + note) for where, text in found]


def _other_tag(path: Path, branches: list[list[ValidationError]]) -> Found | None:
    """Return all the tags that there are, if the value has none of them."""
    tags = [each for errors in branches for each in errors if _is_tag(each)]
    places = {tuple(each.relative_path) for each in tags}
    if len(branches) < 2 or len(tags) != len(branches) or len(places) != 1:
        return None
    wanted = [value for each in tags for value in _choices(each)]
    return (*path, *places.pop()), _not_one_of(wanted, tags[0].instance)


def _not_one_of(wanted: list[object], value: object) -> str:
    return f"must be one of {listing(dict.fromkeys(map(show, wanted)))}, got {show(value)}"


def _is_tag(error: ValidationError) -> bool:
    return len(error.relative_path) == 1 and error.validator in ("const", "enum")


def _choices(error: ValidationError) -> list[object]:
    return list(error.validator_value) if error.validator == "enum" else [error.validator_value]


def _is_wrong_type(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _types(error: ValidationError) -> list[str]:
    wanted = error.validator_value
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _wanted(types: Iterable[str], value: object) -> str:
    return f"must be {listing(types, ' or ')}, got {show(value)}"


def _bound(words: str) -> Words:
    return lambda error: f"must be {words} {show(error.validator_value)}, got {show(error.instance)}"


def _sized(words: str, noun: str, plural: str = "") -> Words:
    def text(error: ValidationError) -> str:
        size = count(int(error.validator_value), noun, plural)  # 2.0 is a size as well
        return f"must have {words} {size}, got {len(error.instance):,}"

    return text


def _forbidden(error: ValidationError) -> str:
    if not error.validator_value:
        return f"nothing is allowed here, got {show(error.instance)}"
    return f"must not match the schema under not, but {show(error.instance)} does"


def _required(error: ValidationError) -> str:
    # jsonschema has one error for each name; they become one problem, as their texts are equal.
    missing = [name for name in error.validator_value if name not in error.instance]
    return f"required {'property' if len(missing) == 1 else 'properties'} missing: {names(missing)}"


def _dependent_required(error: ValidationError) -> str:
    texts = [
        f"where {show(name)} is present, {names(missing)} must be present too"
        for name, others in error.validator_value.items()
        if name in error.instance and (missing := [each for each in others if each not in error.instance])
    ]
    return "; ".join(texts)


def _too_many_items(error: ValidationError) -> str:
    most = count(len(error.schema.get("prefixItems", ())), "item")
    return f"must have at most {most}, got {len(error.instance):,}"


def _property_name(error: ValidationError) -> str:
    inner = error.context[0]
    why = _found((), inner)[0][1]
    return f"the property name {show(inner.instance)} is not allowed: {why.replace('must', 'it must', 1)}"


_TEXTS: Final[Mapping[str, Words]] = {
    "type": lambda error: _wanted(_types(error), error.instance),
    "enum": lambda error: _not_one_of(_choices(error), error.instance),
    "const": lambda error: f"must be exactly {show(error.validator_value)}, got {show(error.instance)}",
    "minimum": _bound("at least"),
    "maximum": _bound("at most"),
    "exclusiveMinimum": _bound("above"),
    "exclusiveMaximum": _bound("below"),
    "minLength": _sized("at least", "character"),
    "maxLength": _sized("at most", "character"),
    "minItems": _sized("at least", "item"),
    "maxItems": _sized("at most", "item"),
    "minProperties": _sized("at least", "property", "properties"),
    "maxProperties": _sized("at most", "property", "properties"),
    "items": _too_many_items,
    "contains": lambda _: "must have an item that matches the schema under contains, none does",
    "minContains": lambda error: (
        f"too few items match the schema under contains, {show(error.validator_value)} must"
    ),
    "maxContains": lambda error: (
        f"too many items match the schema under contains, at most {show(error.validator_value)} may"
    ),
    "required": _required,
    "dependentRequired": _dependent_required,
    "multipleOf": _bound("a multiple of"),
    "pattern": lambda error: (
        f"must match the regular expression {show(error.validator_value)}, got {show(error.instance)}"
    ),
    "propertyNames": _property_name,
    "not": _forbidden,
    "oneOf": lambda error: f"must match only one alternative of oneOf, {show(error.instance)} matches more",
}
