"""The schemas that are sent: never narrower than ours, and strict only where they are so already."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.models.layered.schemas import is_strict, sendable
from tests.runtime.models.anthropic.kit import as_json

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
STRICT = {**OBJECT, "required": ["a"], "additionalProperties": False}

_SCALARS: st.SearchStrategy[object] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 0},
        {"enum": ["x", 1]},
        {"type": ["null", "boolean"]},
        {"$ref": "#/$defs/x"},
        True,
    ]
)
_OBJECTS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), _SCALARS, max_size=3),
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "additionalProperties": st.booleans(),
            "unevaluatedProperties": st.booleans(),
            "description": st.just("words"),
            "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
        },
    ),
    lambda inner: st.one_of(
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        st.builds(lambda one, two: {"type": "object", "allOf": [one, two]}, inner, inner),
        st.builds(lambda one: {"type": "object", "not": one}, inner),
        st.builds(lambda one: {"type": "object", "properties": {"a": one}}, inner),
    ),
    max_leaves=4,
).map(lambda schema: {"$defs": {"x": OBJECT}, **schema})
_INNER: st.SearchStrategy[object] = st.one_of(st.just("x"), st.integers(-1, 1), st.none(), st.just({}))
_VALUES = st.dictionaries(st.sampled_from("abc"), _INNER, max_size=3)


@given(schema=_OBJECTS, value=_VALUES)
def test_every_value_that_ours_admits_is_admitted_by_the_one_sent(schema: Any, value: Any) -> None:
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert jsonschema.Draft202012Validator(sendable(as_json(schema))).is_valid(value)


@given(schema=_OBJECTS)
def test_the_schema_sent_describes_an_object_without_words_that_services_refuse(schema: Any) -> None:
    sent = sendable(as_json(schema))
    assert sent["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & sent.keys()


@given(schema=_OBJECTS)
def test_only_a_schema_that_is_strict_as_it_stands_is_strict(schema: Any) -> None:
    if is_strict(schema):
        assert sendable(as_json(schema)) == schema
        assert set(schema.get("required", ())) == set(schema.get("properties", {}))


def test_a_usual_schema_goes_as_it_is() -> None:
    assert sendable(as_json(OBJECT)) == OBJECT


def test_lost_words_go_into_the_description() -> None:
    sent = sendable(as_json({"description": "Which.", "anyOf": [OBJECT, {"required": ["b"]}]}))
    assert sent["description"].startswith("Which.\nAlso: ")
    assert '"required":["b"]' in sent["description"]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (STRICT, True),
        (OBJECT, False),
        ({**STRICT, "required": []}, False),
        ({**STRICT, "additionalProperties": True}, False),
        ({**STRICT, "anyOf": [{}]}, False),
        ({**STRICT, "properties": {"a": {"type": "string", "pattern": "x"}}}, False),
        ({**STRICT, "properties": {"a": OBJECT}}, False),
        ({**STRICT, "properties": {"a": STRICT}}, True),
        ({**STRICT, "properties": {"a": {"type": "array", "items": STRICT}}}, True),
        ({**STRICT, "properties": {"a": {"type": "object"}}}, False),
        ({**STRICT, "properties": {"a": {}}}, False),
        ({**STRICT, "properties": {"a": True}}, False),
        ({**STRICT, "properties": {"a": {"anyOf": [{"type": "null"}, STRICT]}}}, True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "string"}, False),
    ],
)
def test_the_strict_dialect_is_a_pure_predicate(schema: dict[str, Any], expected: bool) -> None:
    assert is_strict(schema) is expected


def test_a_deep_schema_is_not_strict() -> None:
    schema: dict[str, Any] = STRICT
    for _ in range(6):
        schema = {**STRICT, "properties": {"a": schema}}
    assert not is_strict(schema)


@pytest.mark.parametrize(
    "schema", [True, {"type": ["object", "null"]}, {"$ref": "#/$defs/x", "$defs": {"x": OBJECT}}]
)
def test_any_schema_of_arguments_is_sent_as_that_of_an_object(schema: object) -> None:
    assert sendable(as_json(schema))["type"] == "object"
