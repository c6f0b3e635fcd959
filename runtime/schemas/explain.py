"""Errors of jsonschema as problems that a model can act on: the place, the wanted value, the given one.

For `anyOf` and `oneOf` the alternative that the value comes closest to is explained, not all of them:
the one of the right type, then the one whose tag (a `const` or `enum` directly beneath) fits, then the one
with the fewest errors, then the first. If no type or no tag fits, all of them are named. Problems nearer
to the root come first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from jsonschema.exceptions import ValidationError

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.json_text import pointer
from callboard.runtime.schemas.limits import PROBLEMS_MAX
from callboard.runtime.schemas.wording import count, listing, names, problem, show

Path: TypeAlias = tuple[str | int, ...]
Found: TypeAlias = tuple[Path, str]

_CLOSEST: Final = " (closest of the"


def problems_of(errors: Sequence[ValidationError]) -> tuple[SchemaProblem, ...]:
    """Return the problems of these errors, most general first, within the bounds."""
    found = [each for error in errors for each in _found((), error)]
    found.sort(key=lambda each: len(each[0]))  # stable: errors of one level keep the schema's order
    return bounded(problem(pointer(path), text) for path, text in found)


def bounded(problems: Iterable[SchemaProblem]) -> tuple[SchemaProblem, ...]:
    """Leave out repeated problems, and those beyond the bound."""
    distinct = list(dict.fromkeys(problems))
    if len(distinct) <= PROBLEMS_MAX:
        return tuple(distinct)
    rest = problem("", "there are more problems than these: fix these first")
    return (*distinct[: PROBLEMS_MAX - 1], rest)


def _found(above: Path, error: ValidationError) -> list[Found]:
    """Return the places and messages of one error; several if it is an alternative that nearly fits."""
    path = (*above, *error.relative_path)
    if error.validator in ("anyOf", "oneOf") and error.context:
        return _alternative(path, error)
    if error.validator == "propertyNames" and error.context:
        inner = _found((), error.context[0])
        return [(path, f"{error.message}: it {inner[0][1]}")]
    return [(path, _text(error))]


def _alternative(path: Path, error: ValidationError) -> list[Found]:
    branches: dict[object, list[ValidationError]] = {}
    for each in error.context or ():
        branches.setdefault(each.relative_schema_path[0], []).append(each)
    right_type = [errors for errors in branches.values() if not any(map(_is_wrong_type, errors))]
    if not right_type:
        wrong = [each for each in error.context or () if _is_wrong_type(each)]
        wanted = dict.fromkeys(kind for each in wrong for kind in _types(each))
        return [(path, _wanted(list(wanted), error.instance))]
    if tagged := _other_tag(path, right_type):
        return [tagged]
    closest = min(right_type, key=_distance)
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


def _distance(errors: list[ValidationError]) -> tuple[bool, int]:
    return any(map(_is_tag, errors)), len(errors)


def _is_tag(error: ValidationError) -> bool:
    return len(error.relative_path) == 1 and error.validator in ("const", "enum")


def _choices(error: ValidationError) -> list[object]:
    wanted = error.validator_value
    return list(wanted) if error.validator == "enum" else [wanted]


def _is_wrong_type(error: ValidationError) -> bool:
    return error.validator == "type" and not error.relative_path


def _types(error: ValidationError) -> list[str]:
    wanted = error.validator_value
    return [wanted] if isinstance(wanted, str) else list(wanted)


def _wanted(types: list[str], value: object) -> str:
    return f"must be {listing(types, ' or ')}, got {show(value)}"


def _text(error: ValidationError) -> str:
    """Return the message of one error: made here for jsonschema's own keywords, else as it is."""
    make = _TEXTS.get(error.validator)
    return error.message if make is None else make(error, error.validator_value)


def _bound(words: str) -> Callable[[ValidationError, object], str]:
    return lambda error, wanted: f"must be {words} {show(wanted)}, got {show(error.instance)}"


def _sized(words: str, noun: str, plural: str = "") -> Callable[[ValidationError, object], str]:
    def text(error: ValidationError, wanted: object) -> str:
        size = int(wanted) if isinstance(wanted, int | float) else 0
        has = len(error.instance) if isinstance(error.instance, str | list | dict) else 0
        return f"must have {words} {count(size, noun, plural)}, got {has:,}"

    return text


def _forbidden(error: ValidationError, schema: object) -> str:
    if not schema:
        return f"nothing is allowed here, got {show(error.instance)}"
    return f"must not match the schema under not, but {show(error.instance)} does"


def _required(error: ValidationError, wanted: object) -> str:
    # jsonschema has one error for each name; they become one problem, as their texts are equal.
    missing = [name for name in wanted if name not in error.instance] if isinstance(wanted, list) else []
    return f"required {'property' if len(missing) == 1 else 'properties'} missing: {names(missing)}"


def _dependent_required(error: ValidationError, wanted: object) -> str:
    texts = [
        f"where {show(name)} is present, {names(missing)} must be present too"
        for name, others in (wanted.items() if isinstance(wanted, dict) else ())
        if name in error.instance and (missing := [each for each in others if each not in error.instance])
    ]
    return "; ".join(texts)


def _too_many_items(error: ValidationError, wanted: object) -> str:
    before = error.schema.get("prefixItems", ()) if isinstance(error.schema, dict) else ()
    return f"must have at most {count(len(before), 'item')}, got {len(error.instance):,}"


_TEXTS: Final[Mapping[str, Callable[[ValidationError, object], str]]] = {
    "type": lambda error, _: _wanted(_types(error), error.instance),
    "enum": lambda error, _: _not_one_of(_choices(error), error.instance),
    "const": lambda error, wanted: f"must be exactly {show(wanted)}, got {show(error.instance)}",
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
    "contains": lambda *_: "must have an item that matches the schema under contains, none does",
    "minContains": lambda _, least: f"too few items match the schema under contains, {show(least)} must",
    "maxContains": lambda _, most: (
        f"too many items match the schema under contains, at most {show(most)} may"
    ),
    "required": _required,
    "dependentRequired": _dependent_required,
    "multipleOf": _bound("a multiple of"),
    "pattern": lambda error, wanted: (
        f"must match the regular expression {show(wanted)}, got {show(error.instance)}"
    ),
    "not": _forbidden,
    "oneOf": lambda error, _: (
        f"must match only one alternative of oneOf, {show(error.instance)} matches more"
    ),
}
