import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from callboard.runtime.schemas.acceptance import TooMuch
from callboard.runtime.schemas.validation import Validation
from tests.runtime.schemas.kit import accepted, chain_of, problems
from tests.runtime.schemas.strategies import all_schemas, values

TREE = {"properties": {"a": {"$ref": "#/$defs/n"}}}


@pytest.fixture(scope="module")
def validation() -> Validation:
    return Validation()


@pytest.fixture
def no_re(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python's own regular expressions, made unusable for what jsonschema does with them."""

    def refuse(*_: object) -> None:
        raise AssertionError("Python's re was asked to search")

    with monkeypatch.context() as patch:
        patch.setattr(re, "search", refuse)
        yield


def count(validation: Validation, schema: object, value: object, steps: int | None = None) -> int:
    return len(validation.problems(validation.ready(accepted(schema).outline), value, steps))


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^x"},
        {"patternProperties": {"^x": False}},
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"patternProperties": {"^x": {}}, "unevaluatedProperties": False},
        {"allOf": [{"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^x"}]},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "items": {"$ref": "#"}, "pattern": "^x"},
        {"propertyNames": {"pattern": "^x"}},
    ],
)
@pytest.mark.usefixtures("no_re")
def test_no_keyword_reaches_pythons_re(validation: Validation, schema: object) -> None:
    count(validation, schema, {"a": 1, "xa": 2})
    count(validation, schema, ["a", "x"])
    count(validation, schema, "a")


def test_steps_are_counted_in_every_keyword(validation: Validation) -> None:
    for keyword in sorted(set(Draft202012Validator.VALIDATORS) - {"$dynamicRef"}):
        assert keyword in validation._make.VALIDATORS  # type: ignore[attr-defined]
        function = validation._make.VALIDATORS[keyword]  # type: ignore[attr-defined]
        assert function.__qualname__.startswith("_metered"), keyword


def test_work_beyond_the_steps_is_given_up(validation: Validation) -> None:
    schema = {"items": {"type": "integer", "minimum": 0}}
    assert count(validation, schema, [1] * 100, steps=1_000) == 0
    with pytest.raises(TooMuch):
        count(validation, schema, [1] * 1_000, steps=1_000)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": True}, [0] * 2_000),
        ({"uniqueItems": True}, [[0, index] for index in range(1_000)]),
        ({"additionalProperties": {}}, {str(index): 0 for index in range(2_000)}),
        ({"contains": {}, "minContains": 2_000}, [0] * 2_000),
        ({"const": [0] * 2_000}, [0] * 2_000),
        (
            {
                "properties": {str(index): True for index in range(900)},
                "required": [str(i) for i in range(900)],
            },
            {},
        ),
        ({"pattern": "(.*a){100}"}, "ab" * 1_000),
        ({"anyOf": [{"items": {"type": "integer"}}]}, ["x"] * 400),
        ({"items": {"anyOf": [{"const": index} for index in range(100)]}}, [-1] * 10),
        ({"items": {"$ref": "#/$defs/n"}, "$defs": {"n": TREE}}, [chain_of(20, 0)] * 100),
    ],
)
def test_work_that_one_keyword_hides_is_counted_too(
    validation: Validation, schema: object, value: object
) -> None:
    with pytest.raises(TooMuch):
        count(validation, schema, value, steps=1_000)


def test_the_budget_starts_anew_with_every_value(validation: Validation) -> None:
    for _ in range(50):
        assert count(validation, {"items": {"type": "integer"}}, [1] * 100, steps=500) == 0


def test_two_validations_do_not_share_a_budget() -> None:
    one, two = Validation(), Validation()
    ready = one.ready(accepted({"items": {"type": "integer"}}).outline)
    two.problems(two.ready(accepted({}).outline), 1, 0)
    assert one.problems(ready, [1] * 10, 100) == ()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(all_schemas, st.lists(values, min_size=1, max_size=8))
def test_our_verdict_is_that_of_jsonschema_as_it_comes(root: object, examples: list[object]) -> None:
    stock = Draft202012Validator(root, registry=Registry())
    for value in examples:
        assert (problems(root, value) == []) == stock.is_valid(value), json.dumps([root, value])
