import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry

from callboard.runtime.schemas import validation
from callboard.runtime.schemas.json_text import parse
from callboard.runtime.schemas.subschema_index import DIALECT
from callboard.runtime.schemas.validation import report_problems
from tests.runtime.schemas.kit import accepted, problems, text
from tests.runtime.schemas.strategies import all_schemas, values


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(all_schemas, st.lists(values, min_size=1, max_size=8))
def test_jsonschema_finds_words_exactly_where_jsonschema_rs_finds_a_value_invalid(
    root: object, examples: list[object]
) -> None:
    ready = accepted(root)
    if ready.worded is None:
        return
    for value in examples:
        found = validation._problems(
            validation._CHECKER(validation._prepared(ready.worded), registry=Registry()), value
        )
        assert (found == ()) == ready.validator.is_valid(parse(text(value))), json.dumps([root, value])


def test_data_keeps_what_looks_like_a_dialect() -> None:
    schema = {"const": {"$schema": DIALECT}}
    assert problems(schema, {"$schema": DIALECT}) == []
    assert problems(schema, {}) == [("", "must be exactly an object with 1 property, got {}")]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": False}}, {"a": 1}, ("/a", "nothing is allowed here, got 1")),
        ({"items": False}, [1], ("", "must have at most 0 items, got 1")),
        ({"additionalProperties": False}, {"a": 1}, ("", 'unknown property "a": none is allowed')),
        (
            {"properties": {"a": {"$ref": "#/$defs/no"}}, "$defs": {"no": False}},
            {"a": 1},
            ("/a", "nothing is allowed here, got 1"),
        ),
        ({"prefixItems": [True, False]}, [1, 2], ("/1", "nothing is allowed here, got 2")),
    ],
)
def test_false_says_where_it_is(schema: object, value: object, expected: tuple[str, str]) -> None:
    assert problems(schema, value) == [expected]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"a": 1, "b": 1},
            [("", "Unevaluated properties are not allowed ('b' was unexpected)")],
        ),
        (
            {"prefixItems": [{}], "unevaluatedItems": False},
            [1, 2],
            [("", "Unevaluated items are not allowed (1 item)")],
        ),
        (
            {"properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False, "required": ["c"]},
            {"a": "x" * 5_000},
            [("", '"c" is a required property'), ("/a", 'the value is not of type "integer"')],
        ),
    ],
)
def test_schemas_with_unevaluated_parts_are_worded_by_jsonschema_rs(
    schema: object, value: object, expected: list[tuple[str, str]]
) -> None:
    assert sorted(problems(schema, value)) == expected


def test_a_report_for_which_jsonschema_has_no_words_gets_those_of_jsonschema_rs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = accepted({"items": {"type": "integer"}})
    monkeypatch.setattr(validation, "_problems", lambda *_: ())
    [found] = report_problems(ready.validator, ready.worded, ["x"])
    assert (found.path, found.message) == ("/0", 'the value is not of type "integer"')


def test_numbers_beyond_doubles_get_words_as_well() -> None:
    assert problems({"multipleOf": 0.5}, 10**400) == []
    assert problems({"multipleOf": 7}, 10**400) != []
    assert problems({"maximum": 1.5}, 10**400) == [("", "must be at most 1.5, got a very large integer")]


def test_a_large_value_is_not_copied_into_every_error() -> None:
    big = {"names": ["n" * 200] * 50}
    schema = {"items": {"anyOf": [{"type": "integer"}, {"properties": {"names": {"maxItems": 1}}}]}}
    found = problems(schema, [big] * 90)
    assert found[0] == ("/0/names", "must have at most 1 item, got 50")
