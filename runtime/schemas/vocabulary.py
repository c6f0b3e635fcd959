"""Keywords that jsonschema's own functions do not do well enough, each for a reason.

    $ref                    looked up in a registry on every use; here it carries its target
    pattern, patternProperties, additionalProperties
                            go through Python's `re`, which can hold the interpreter for minutes
    enum, const, uniqueItems
                            compare every pair: 16.5 s for 3,000 small objects
    multipleOf              19.99 is no multiple of 0.01 in doubles, it is in the decimals people write
    propertyNames           does not say which name
    required, dependentRequired
                            one error for each name

Messages made here are final; explain.py makes those of jsonschema's own keywords.
"""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Protocol, TypeAlias

from jsonschema.exceptions import ValidationError

from callboard.runtime.schemas.budget import Budget
from callboard.runtime.schemas.jsontext import canonical
from callboard.runtime.schemas.patterns import Pattern
from callboard.runtime.schemas.prepare import Choices, Reference, size
from callboard.runtime.schemas.wording import listing, names, show

Schema: TypeAlias = Mapping[str, object]
Errors: TypeAlias = Iterator[ValidationError]


class Validator(Protocol):
    """What keywords need of jsonschema's validator."""

    def descend(self, instance: object, schema: object, path: str | int | None = None) -> Errors:
        """The errors of a value under a subschema."""

    def evolve(self, *, schema: object) -> "Validator":
        """The same validator for another schema."""

    def is_valid(self, instance: object) -> bool:
        """Whether a value has no errors."""


Keyword: TypeAlias = Callable[[Validator, object, object, Schema], Errors]
"""A keyword as jsonschema calls it: validator, the keyword's value, the instance, the whole subschema."""


class Matcher:
    """Searches for regular expressions and other work whose size the meter of validation.py cannot see."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def is_in(self, pattern: object, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        if not isinstance(pattern, Pattern):
            return False
        self._budget.spend(pattern.steps(text))
        return pattern.is_in(text)

    def is_any_in(self, patterns: object, text: str) -> bool:
        """Whether any key of a `patternProperties` matches."""
        return isinstance(patterns, dict) and any(self.is_in(each, text) for each in patterns)

    def text_of(self, value: object) -> str:
        """The text by which a value is compared."""
        self._budget.spend(size(value))
        return canonical(value)


class Vocabulary(Matcher):
    """The keywords of the table above, but for those that need no state."""

    def table(self) -> dict[str, Keyword]:
        """All of them by name."""
        return {
            "$ref": _reference,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "propertyNames": _property_names,
            "required": _required,
            "dependentRequired": _dependent_required,
            "enum": self._enum,
            "const": self._const,
            "uniqueItems": self._unique_items,
            "multipleOf": _multiple_of,
        }

    def _pattern(self, _: Validator, pattern: object, value: object, __: Schema) -> Errors:
        if isinstance(value, str) and not self.is_in(pattern, value):
            yield ValidationError(f"must match the regular expression {show(pattern)}, got {show(value)}")

    def _pattern_properties(self, validator: Validator, patterns: object, value: object, _: Schema) -> Errors:
        if isinstance(value, dict) and isinstance(patterns, dict):
            for pattern, subschema in patterns.items():
                for name, each in value.items():
                    if self.is_in(pattern, name):
                        yield from validator.descend(each, subschema, path=name)

    def _additional_properties(
        self, validator: Validator, subschema: object, value: object, schema: Schema
    ) -> Errors:
        if not isinstance(value, dict):
            return
        known, patterns = schema.get("properties", {}), schema.get("patternProperties")
        extras = [
            name
            for name in value
            if not (isinstance(known, dict) and name in known) and not self.is_any_in(patterns, name)
        ]
        if subschema is not False:
            for name in extras:
                yield from validator.descend(value[name], subschema, path=name)
        elif extras:
            yield ValidationError(unknown(extras, known))

    def _enum(self, _: Validator, choices: object, value: object, __: Schema) -> Errors:
        if isinstance(choices, Choices) and self.text_of(value) not in choices.texts:
            yield ValidationError(f"must be one of {listing(map(show, choices))}, got {show(value)}")

    def _const(self, _: Validator, wanted: object, value: object, __: Schema) -> Errors:
        if self.text_of(value) != self.text_of(wanted):
            yield ValidationError(f"must be exactly {show(wanted)}, got {show(value)}")

    def _unique_items(self, _: Validator, is_asked: object, value: object, __: Schema) -> Errors:
        if not is_asked or not isinstance(value, list):
            return
        first: dict[str, int] = {}
        for index, each in enumerate(value):
            if (other := first.setdefault(self.text_of(each), index)) != index:
                yield ValidationError(f"items must all be different, but items {other} and {index} are equal")
                return


def unknown(extras: list[str], known: object) -> str:
    """What is said about properties that may not be there."""
    noun = "unknown property" if len(extras) == 1 else "unknown properties"
    allowed = f"allowed are {names(known)}" if isinstance(known, dict) and known else "none is allowed"
    return f"{noun} {names(extras)}: {allowed}"


def _reference(validator: Validator, reference: object, value: object, _: Schema) -> Errors:
    if isinstance(reference, Reference):
        yield from validator.descend(value, reference.target)


def _property_names(validator: Validator, subschema: object, value: object, _: Schema) -> Errors:
    for name in value if isinstance(value, dict) else ():
        if errors := list(validator.descend(name, subschema)):
            yield ValidationError(f"the property name {show(name)} is not allowed", context=errors)


def _required(_: Validator, wanted: object, value: object, __: Schema) -> Errors:
    if not isinstance(value, dict) or not isinstance(wanted, list):
        return
    if missing := [name for name in wanted if name not in value]:
        noun = "property" if len(missing) == 1 else "properties"
        yield ValidationError(f"required {noun} missing: {names(missing)}")


def _dependent_required(_: Validator, dependents: object, value: object, __: Schema) -> Errors:
    if not isinstance(value, dict) or not isinstance(dependents, dict):
        return
    for name, wanted in dependents.items():
        missing = [each for each in wanted if each not in value] if name in value else []
        if missing:
            yield ValidationError(f"where {show(name)} is present, {names(missing)} must be present too")


def _multiple_of(_: Validator, divisor: object, value: object, __: Schema) -> Errors:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if isinstance(divisor, int | float) and _exact(value) % _exact(divisor):
        yield ValidationError(f"must be a multiple of {show(divisor)}, got {show(value)}")


def _exact(number: float) -> Fraction:
    """The decimal that was written: `repr` gives the shortest text that reads back to the same double."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)
