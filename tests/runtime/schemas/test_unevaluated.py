import pytest

from tests.runtime.schemas.kit import problems

BASE = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_properties_seen_by_a_reference_are_known() -> None:
    schema = {
        "$ref": "#/$defs/base",
        "properties": {"b": {}},
        "unevaluatedProperties": False,
        "$defs": {"base": BASE},
    }
    assert problems(schema, {"a": 1, "b": 2}) == []
    assert problems(schema, {"a": 1, "c": 2}) == [("", 'unknown property "c": allowed are "a"')]


def test_a_part_that_does_not_hold_does_not_make_its_properties_unknown() -> None:
    schema = {"allOf": [BASE], "unevaluatedProperties": False}
    assert problems(schema, {"a": "x"}) == [("/a", 'must be integer, got "x"')]


def test_patterns_count_as_looking() -> None:
    schema = {"allOf": [{"patternProperties": {"^x-": {}}}], "unevaluatedProperties": False}
    assert problems(schema, {"x-a": 1}) == []
    assert [path for path, _ in problems(schema, {"y": 1})] == [""]


def test_unevaluated_properties_may_have_a_schema_of_their_own() -> None:
    schema = {"properties": {"a": {}}, "unevaluatedProperties": {"type": "string"}}
    assert problems(schema, {"a": 1, "b": 2}) == [("/b", "must be string, got 2")]


@pytest.mark.parametrize(
    ("value", "count"),
    [({"kind": "p", "p": 1}, 0), ({"kind": "q", "q": 1}, 0), ({"kind": "p", "q": 1}, 1)],
)
def test_only_the_branch_that_holds_looks(value: object, count: int) -> None:
    schema = {
        "properties": {"kind": {}},
        "if": {"properties": {"kind": {"const": "p"}}},
        "then": {"properties": {"p": {}}},
        "else": {"properties": {"q": {}}},
        "unevaluatedProperties": False,
    }
    assert len(problems(schema, value)) == count


def test_items_seen_by_prefix_and_contains_are_known() -> None:
    schema = {"prefixItems": [{"type": "string"}], "contains": {"type": "integer"}, "unevaluatedItems": False}
    assert problems(schema, ["a", 1, 2]) == []
    assert problems(schema, ["a", 1, "b", "c"]) == [("", "2 items more than allowed, the first is item 2")]


def test_unevaluated_items_may_have_a_schema_of_their_own() -> None:
    schema = {"anyOf": [{"prefixItems": [{}]}], "unevaluatedItems": {"type": "null"}}
    assert problems(schema, [1, None, 2]) == [("/2", "must be null, got 2")]


def test_other_kinds_of_value_are_none_of_their_business() -> None:
    assert problems({"unevaluatedItems": False, "unevaluatedProperties": False}, "x") == []


def test_ten_thousand_items_are_not_looked_up_in_a_list() -> None:
    schema = {"prefixItems": [{}], "contains": {"type": "integer"}, "unevaluatedItems": {"type": "integer"}}
    assert problems(schema, list(range(10_000))) == []
