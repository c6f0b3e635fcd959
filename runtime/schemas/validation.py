"""jsonschema (draft 2020-12) with our keywords, a meter on every keyword, and no way to network or files."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.budget import Budget
from callboard.runtime.schemas.explain import problems_of
from callboard.runtime.schemas.limits import ERRORS_READ_MAX
from callboard.runtime.schemas.outline import Outline
from callboard.runtime.schemas.prepare import prepare, quiet
from callboard.runtime.schemas.unevaluated import Unevaluated
from callboard.runtime.schemas.vocabulary import Errors, Keyword, Schema, Validator, Vocabulary

_GOES_THROUGH_VALUE = frozenset(
    {
        "items",
        "prefixItems",
        "contains",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that cost something for every entry of the value."""


class Ready(Protocol):
    """A schema that values can be held against."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]:
        """The errors of a value."""


class Validation:
    """Holds values against schemas, with a budget of steps.

    jsonschema keeps its keyword functions on a class, so each Validation makes a class of its own: its
    meter spends from its own budget, whichever thread it runs on.
    """

    def __init__(self) -> None:
        self._budget = Budget()
        own = {**Vocabulary(self._budget).table(), **Unevaluated(self._budget).table()}
        keywords = {**Draft202012Validator.VALIDATORS, **own}
        metered = {name: _metered(name, function, self._budget) for name, function in keywords.items()}
        self._make: Callable[..., Ready] = extend(Draft202012Validator, validators=metered)

    def ready(self, outline: Outline) -> Ready:
        """The accepted schema of this outline, ready for use.

        The registry is empty and retrieves nothing; jsonschema's default one would fetch http and file
        addresses and put what it finds into messages.
        """
        return self._make(prepare(outline), registry=Registry())

    def problems(self, schema: Ready, value: object, steps: int | None) -> tuple[SchemaProblem, ...]:
        """Why the value does not match, or nothing. Raises TooMuch after so many steps (None: never)."""
        self._budget.refill(steps)
        errors = list(islice(schema.iter_errors(quiet(value)), ERRORS_READ_MAX))
        return problems_of(errors) if errors else ()


def _metered(name: str, function: Keyword, budget: Budget) -> Keyword:
    """The keyword function, spending before it works and for every error that passes through it."""
    goes_through = name in _GOES_THROUGH_VALUE

    def metered(validator: Validator, asked: object, value: object, schema: Schema) -> Errors:
        steps = 1
        if isinstance(asked, dict | list):
            steps += len(asked)
        if goes_through and isinstance(value, dict | list):
            steps += len(value)
        budget.spend(steps)
        for error in function(validator, asked, value, schema):
            budget.spend(1)
            yield error

    return metered
