"""Errors of jsonschema as problems that a model can act on: the place, the wanted value, the given one.

For `anyOf` and `oneOf` the alternative that the value comes closest to is explained, not all of them:
the one of the right type, then the one whose tag (a `const` or `enum` directly beneath) fits, then the one
with the fewest errors, then the first. If no type or no tag fits, all of them are named. Problems nearer
to the root come first.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from jsonschema.exceptions import ValidationError

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import PROBLEMS_MAX, count, listing, names, pointer, problem, show

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
