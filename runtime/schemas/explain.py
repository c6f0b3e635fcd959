"""Errors of jsonschema-rs as problems that a model can act on: the place, the wanted value, the given one.

For `anyOf` and `oneOf` the alternative that the value comes closest to is explained, not all of them:
the one of the right type, then the one whose tag (a `const` or `enum` directly beneath) fits, then the one
with the fewest errors, then the first. If no type or no tag fits, all of them are named. Problems nearer
to the root come first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from jsonschema_rs import Draft202012Validator, ValidationError

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.compiled import UNKNOWN, Fault, Path, Unfit, compile_schema, faults_of
from callboard.runtime.schemas.json_text import canonical, count, listing, names, pointer, problem, show
from callboard.runtime.schemas.limits import PROBLEMS_MAX
from callboard.runtime.schemas.subschema_index import DIALECT

Found: TypeAlias = tuple[Path, str]
Words: TypeAlias = Callable[[Fault], str]

_CLOSEST: Final = " (closest of the"
_META: Final = compile_schema({"$ref": DIALECT}, is_linear=False)
# Advice for keywords that earlier drafts wrote otherwise.
_HINTS: Final = {
    "items": "; write prefixItems for one schema per position",
    "required": "; in an object's schema, list the required names",
    "exclusiveMinimum": "; true and false were draft 4",
    "exclusiveMaximum": "; true and false were draft 4",
}


def report_problems(
    validator: Draft202012Validator,
    schema: Mapping[str, object] | None,
    value: object,
    *,
    is_listed: bool = True,
) -> tuple[SchemaProblem, ...]:
    """Return why a value does not match. schema: None if its places are ambiguous. is_listed: find all."""
    if is_listed:
        return _problems_of(validator.iter_errors(value), schema, value)
    try:
        validator.validate(value)
    except ValidationError as error:
        return _problems_of([error], schema, value)
    return ()


def schema_problems(
    schema: Mapping[str, object], patterns: Sequence[tuple[str, str]], otherwise: str
) -> tuple[SchemaProblem, ...]:
    """Return why a schema is refused. patterns: with their places. otherwise: said if nothing is found."""
    found = report_problems(_META, None, schema)
    hinted = [problem(one.path, one.message + _HINTS.get(one.path.rpartition("/")[2], "")) for one in found]
    unfit = [problem(path, why) for path, pattern in patterns if (why := _why_unfit(pattern))]
    return tuple(hinted or unfit) or (problem("", otherwise),)


def _why_unfit(pattern: str) -> str:
    try:
        compile_schema({"pattern": pattern}, is_linear=False)
    except Unfit:
        return "is no regular expression that can be used (ECMA-262, of bounded size)"
    return ""


def _problems_of(
    errors: Iterable[ValidationError], schema: Mapping[str, object] | None, value: object
) -> tuple[SchemaProblem, ...]:
    """Return the problems of these errors, most general first, within the bounds."""
    found = [each for fault in faults_of(errors, schema, value) for each in _found(fault)]
    found.sort(key=lambda each: len(each[0]))  # stable
    problems = list(dict.fromkeys(problem(pointer(path), text) for path, text in found))
    if len(problems) > PROBLEMS_MAX:
        problems[PROBLEMS_MAX - 1 :] = [problem("", "there are more problems than these: fix these first")]
    return tuple(problems)


def _found(fault: Fault) -> list[Found]:
    """Return the places and messages of one error; several if it is an alternative that nearly fits."""
    if not fault.branches:
        return [(fault.path, _text(fault))]
    wrong = [_below(faults, fault, 0, "type") for faults in fault.branches]
    right_type = [faults for faults, of_type in zip(fault.branches, wrong, strict=True) if not of_type]
    if right_type:
        return _closest(fault, right_type)
    wanted = dict.fromkeys(kind for faults in wrong for one in faults for kind in _types(one))
    return [(fault.path, _wanted(list(wanted), fault.value))]


def _closest(fault: Fault, branches: list[list[Fault]]) -> list[Found]:
    tags = [_below(faults, fault, 1, "const", "enum") for faults in branches]
    if tagged := _other_tag(tags):
        return [tagged]
    closest = min(zip(branches, tags, strict=True), key=lambda each: (bool(each[1]), len(each[0])))[0]
    found = [each for inner in closest for each in _found(inner)]
    if len(branches) == 1:
        return found
    note = f"{_CLOSEST} {len(fault.branches)} alternatives of {fault.keyword})"
    return [(where, text if _CLOSEST in text else text + note) for where, text in found]


def _below(faults: list[Fault], outer: Fault, levels: int, *keywords: str) -> list[Fault]:
    """Return the faults of these keywords so many levels below another fault."""
    depth = len(outer.path) + levels
    return [one for one in faults if len(one.path) == depth and one.keyword in keywords]


def _other_tag(tags: list[list[Fault]]) -> Found | None:
    """Return all the tags that there are, if the value has none of them."""
    flat = [one for faults in tags for one in faults]
    if len(tags) < 2 or len(tags) != len(flat) or len({one.path for one in flat}) != 1:
        return None
    wanted = [value for one in flat for value in _choices(one)]
    return flat[0].path, _not_one_of(wanted, flat[0].value)


def _not_one_of(wanted: list[object], value: object) -> str:
    return f"must be one of {listing(dict.fromkeys(map(show, wanted)))}, got {show(value)}"


def _choices(fault: Fault) -> list[object]:
    wanted = fault.wanted
    return list(wanted) if fault.keyword == "enum" and isinstance(wanted, list) else [wanted]


def _types(fault: Fault) -> list[str]:
    return fault.wanted if isinstance(fault.wanted, list) else [str(fault.wanted)]


def _wanted(types: list[str], value: object) -> str:
    return f"must be {listing(types, ' or ')}, got {show(value)}"


def _text(fault: Fault) -> str:
    """Return the message of one error: made here if it can be, else that of jsonschema-rs."""
    make = _TEXTS.get(fault.keyword)
    return fault.message if make is None or fault.wanted is UNKNOWN else make(fault)


def _bound(words: str) -> Words:
    return lambda fault: f"must be {words} {show(fault.wanted)}, got {show(fault.value)}"


def _sized(words: str, noun: str, plural: str = "") -> Words:
    def text(fault: Fault) -> str:
        size = int(fault.wanted) if isinstance(fault.wanted, int | float) else 0
        has = len(fault.value) if isinstance(fault.value, str | list | dict) else 0
        return f"must have {words} {count(size, noun, plural)}, got {has:,}"

    return text


def _forbidden(fault: Fault) -> str:
    if not fault.wanted:
        return f"nothing is allowed here, got {show(fault.value)}"
    return f"must not match the schema under not, but {show(fault.value)} does"


def _required(fault: Fault) -> str:
    # jsonschema-rs has one error for each name; they become one problem, as their texts are equal.
    wanted = fault.wanted if isinstance(fault.wanted, list) else [fault.wanted]
    missing = [str(name) for name in wanted if isinstance(fault.value, dict) and name not in fault.value]
    return f"required {'property' if len(missing) == 1 else 'properties'} missing: {names(missing)}"


def _dependent_required(fault: Fault) -> str:
    if not isinstance(fault.wanted, dict) or not isinstance(fault.value, dict):
        return _required(fault)
    texts = [
        f"where {show(name)} is present, {names(missing)} must be present too"
        for name, others in fault.wanted.items()
        if name in fault.value and (missing := [each for each in others if each not in fault.value])
    ]
    return "; ".join(texts)


def _too_many_items(fault: Fault) -> str:
    before, value = fault.beside.get("prefixItems"), fault.value
    has = len(value) if isinstance(value, list) else 0
    return f"must have at most {count(len(before) if isinstance(before, list) else 0, 'item')}, got {has:,}"


def _unknown_properties(fault: Fault) -> str:
    told = set(fault.told) if isinstance(fault.told, list | dict) else ()
    extras = [name for name in fault.value if name in told] if isinstance(fault.value, dict) else []
    known = fault.beside.get("properties")
    allowed = f"allowed are {names(known)}" if isinstance(known, dict) and known else "none is allowed"
    return f"unknown {'property' if len(extras) == 1 else 'properties'} {names(extras)}: {allowed}"


def _property_name(fault: Fault) -> str:
    inner = fault.told
    assert isinstance(inner, Fault)
    return f"the property name {show(inner.value)} is not allowed: it {_text(inner)}"


def _equal_items(fault: Fault) -> str:
    # Once through: 3,000 small objects have 4 million pairs.
    first: dict[str, int] = {}
    for index, each in enumerate(fault.value if isinstance(fault.value, list) else ()):
        if (other := first.setdefault(canonical(each), index)) != index:
            return f"items must all be different, but items {other} and {index} are equal"
    return fault.message


_TEXTS: Final[Mapping[str, Words]] = {
    "type": lambda fault: _wanted(_types(fault), fault.value),
    "enum": lambda fault: _not_one_of(_choices(fault), fault.value),
    "const": lambda fault: f"must be exactly {show(fault.wanted)}, got {show(fault.value)}",
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
    "minContains": lambda fault: f"too few items match the schema under contains, {show(fault.wanted)} must",
    "maxContains": lambda fault: (
        f"too many items match the schema under contains, at most {show(fault.wanted)} may"
    ),
    "required": _required,
    "dependentRequired": _dependent_required,
    "multipleOf": _bound("a multiple of"),
    "pattern": lambda fault: (
        f"must match the regular expression {show(fault.wanted)}, got {show(fault.value)}"
    ),
    "not": _forbidden,
    "false": _forbidden,
    "additionalProperties": _unknown_properties,
    "propertyNames": _property_name,
    "uniqueItems": _equal_items,
    "oneOf": lambda fault: f"must match only one alternative of oneOf, {show(fault.value)} matches more",
}
