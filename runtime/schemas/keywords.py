"""Keywords that jsonschema's own functions do not do well enough; each says why.

explain.py words the errors that have no message here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from jsonschema.exceptions import ValidationError

from callboard.runtime.schemas.compiled import expression
from callboard.runtime.schemas.json_text import canonical
from callboard.runtime.schemas.wording import names, show

Schema: TypeAlias = Mapping[str, object]
Errors: TypeAlias = Iterator[ValidationError]


class Validator(Protocol):
    """The part of jsonschema's validator that keywords use."""

    def descend(self, instance: object, schema: object, path: str | int | None = None) -> Errors:
        """Yield the errors of a value under a subschema."""


Keyword: TypeAlias = Callable[[Validator, object, object, Schema], Errors]
"""A keyword as jsonschema calls it: validator, the keyword's value, the instance, the whole subschema."""


def matches(pattern: object, text: str) -> bool:
    """Return True if the regular expression matches anywhere in the text."""
    # Python's own `re` differs from ECMA-262, and `^(a+)+$` on 28 letters takes it 35 s.
    return isinstance(pattern, str) and expression(pattern).is_valid(str.__str__(text))


def _pattern(_: Validator, pattern: object, value: object, __: Schema) -> Errors:
    if isinstance(value, str) and not matches(pattern, value):
        yield ValidationError("")


def _pattern_properties(validator: Validator, patterns: object, value: object, _: Schema) -> Errors:
    if isinstance(value, dict) and isinstance(patterns, dict):
        for pattern, subschema in patterns.items():
            for name, each in value.items():
                if matches(pattern, name):
                    yield from validator.descend(each, subschema, path=name)


def _additional_properties(validator: Validator, subschema: object, value: object, schema: Schema) -> Errors:
    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    assert isinstance(known, dict)
    assert isinstance(patterns, dict)
    extras = [name for name in value if name not in known and not any(matches(p, name) for p in patterns)]
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
        if errors := list(validator.descend(name, subschema)):
            yield ValidationError(f"the property name {show(name)} is not allowed", context=errors)


def _unique_items(_: Validator, is_asked: object, value: object, __: Schema) -> Errors:
    # jsonschema compares every pair: 16.5 s for 3,000 small objects.
    if not is_asked or not isinstance(value, list):
        return
    first: dict[str, int] = {}
    for index, each in enumerate(value):
        if (other := first.setdefault(canonical(each), index)) != index:
            yield ValidationError(f"items must all be different, but items {other} and {index} are equal")
            return


KEYWORDS: Final[Mapping[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "uniqueItems": _unique_items,
}
