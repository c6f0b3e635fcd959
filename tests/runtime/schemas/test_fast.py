import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from callboard.runtime.schemas.fast import compile_fast
from callboard.runtime.schemas.jsontext import parse
from tests.runtime.schemas.kit import DOUBLING, accepted, text
from tests.runtime.schemas.strategies import common_schemas, values


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(common_schemas, st.lists(values, min_size=1, max_size=8))
def test_the_fast_path_agrees_with_jsonschema(root: object, examples: list[object]) -> None:
    check = compile_fast(accepted(root))
    if check is None:
        return
    stock = Draft202012Validator(root, registry=Registry())
    for value in examples:
        assert check(parse(text(value))) == stock.is_valid(value), json.dumps([root, value])


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"not": {}},
        {"oneOf": [{}]},
        {"uniqueItems": True},
        {"multipleOf": 2},
        {"enum": [{}]},
        {"const": 2**60},
        {"const": 1.5},
        {"patternProperties": {"a": {}}},
        {"properties": {"a": {"if": {}}}},
        {"properties": {"a": {"$ref": "#"}}},
        DOUBLING,
    ],
)
def test_what_is_not_compiled_has_no_fast_path(schema: object) -> None:
    assert compile_fast(accepted(schema)) is None


def test_annotations_and_unknown_keywords_do_not_stand_in_the_way() -> None:
    schema = {"type": "string", "format": "date", "title": "t", "x-order": 1, "$comment": "c", "default": 1}
    check = compile_fast(accepted(schema))
    assert check is not None
    assert check("no date")


def test_a_whole_float_is_an_integer_and_a_flag_is_none() -> None:
    check = compile_fast(accepted({"type": "integer"}))
    assert check is not None
    assert [check(each) for each in (1, 1.0, 1.5, True, "1")] == [True, True, False, False, False]


def test_properties_keep_their_checks_when_other_keywords_come_between() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "additionalProperties": {"type": "null"},
    }
    check = compile_fast(accepted(schema))
    assert check is not None
    assert check({"a": "x", "b": 1, "c": None})
    assert not check({"a": 1})
    assert not check({"b": "x"})
    assert not check({"c": 1})
