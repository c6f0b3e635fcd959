"""The schemas that are sent: never narrower than ours, and strict only where they are so already."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard.replay.testing.input_rules.gemini import problem_of
from callboard.replay.testing.input_rules.problems import request_problem
from callboard.runtime.models.layered.schemas import is_strict, sendable, sendable_to_gemini, sendable_to_nova
from tests.runtime.models.anthropic.kit import as_json
from tests.tables import table

OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
STRICT = {**OBJECT, "required": ["a"], "additionalProperties": False}

_SCALARS: st.SearchStrategy[object] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 0},
        {"enum": ["x", 1]},
        {"type": ["null", "boolean"]},
        {"$ref": "#/$defs/x"},
        {"$ref": "#/$defs/x", "description": "words", "required": ["a"]},
        {"$ref": "#/$defs/x/properties/a"},
        {"$id": "https://a.org/i", "$defs": {"x": {"type": "integer"}}, "$ref": "#/$defs/x"},
        {"const": "x"},
        {"const": None},
        {"enum": [None, "x"]},
        {"oneOf": [{"type": "string"}, {"const": 1}]},
        {"oneOf": [{"type": "string"}, {"minLength": 1}], "anyOf": [{"const": "x"}]},
        {"type": "array", "prefixItems": [{"const": 1}], "items": False, "uniqueItems": True},
        {"type": "string", "pattern": "^x", "format": "uuid", "maxLength": 0, "title": "T"},
        {"exclusiveMinimum": 0, "multipleOf": 2, "default": 4},
        {
            "patternProperties": {"^a": {"type": "string"}},
            "additionalProperties": False,
            "propertyNames": {"maxLength": 1},
        },
        {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}},
        {"type": "array"},
        {"type": ["array", "null"], "minItems": 1},
        {"type": "array", "items": {"type": "array", "contains": {"type": "array"}}},
        True,
        False,
    ]
)
_OBJECTS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("abc"), _SCALARS, max_size=3),
            "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            "additionalProperties": st.booleans(),
            "patternProperties": st.just({"^b": {"type": "integer"}}),
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
_INNER: st.SearchStrategy[object] = st.one_of(
    st.just("x"), st.just(""), st.integers(-1, 4), st.none(), st.just({}), st.just([1]), st.just({"a": "x"})
)
_VALUES = st.dictionaries(st.sampled_from("abc"), _INNER, max_size=3)


@pytest.mark.parametrize("make", [sendable, sendable_to_gemini, sendable_to_nova])
@given(schema=_OBJECTS, value=_VALUES)
def test_every_value_that_ours_admits_is_admitted_by_the_one_sent(make: Any, schema: Any, value: Any) -> None:
    if jsonschema.Draft202012Validator(schema).is_valid(value):
        assert jsonschema.Draft202012Validator(make(as_json(schema))).is_valid(value)


def gemini_problem(schema: Any) -> str:
    """Return the fault that Gemini finds in a tool with this schema."""
    declared = {"name": "look", "description": "", "parametersJsonSchema": schema}
    contents = [{"role": "user", "parts": [{"text": "Hi."}]}]
    return problem_of({"contents": contents, "tools": [{"functionDeclarations": [declared]}]})


@given(schema=_OBJECTS)
def test_gemini_gets_words_that_it_knows(schema: Any) -> None:
    assert gemini_problem(sendable_to_gemini(as_json(schema))) == ""


@example({"type": "object", "properties": {"a": {"anyOf": [{"type": "array"}, True]}}})
@given(schema=_OBJECTS)
def test_openai_gets_items_in_every_array(schema: Any) -> None:
    function = {"name": "look", "parameters": sendable(as_json(schema))}
    tools = [{"type": "function", "function": function}]
    said = [{"role": "user", "content": "Hi."}]
    assert request_problem("chat", {"model": "m", "messages": said, "tools": tools}) == ""


@pytest.mark.parametrize("make", [sendable, sendable_to_gemini])
def test_an_array_without_items_gets_an_empty_one_and_data_stays(make: Any) -> None:
    """https://github.com/nocobase/nocobase/issues/9411, .../NousResearch/hermes-agent/issues/71804"""
    rows = {"type": "array", "items": {"type": "array"}, "description": "rows"}
    either = {"anyOf": [{"type": ["array", "null"]}, {"type": "string", "enum": ["array"]}]}
    sent = make(as_json({"type": "object", "properties": {"items": rows, "type": either}}))
    assert sent["properties"] == {
        "items": {"type": "array", "items": {"type": "array", "items": {}}, "description": "rows"},
        "type": {"anyOf": [{"type": ["array", "null"], "items": {}}, {"type": "string", "enum": ["array"]}]},
    }


@given(schema=_OBJECTS)
def test_nova_gets_three_keywords_without_references(schema: Any) -> None:
    sent = sendable_to_nova(as_json(schema))
    assert sent.keys() <= {"type", "properties", "required", "description"}
    assert "$ref" not in json.dumps({**sent, "description": ""})
    assert ("Also: " in sent.get("description", "")) or sent.get("properties") == schema.get("properties")


@given(schema=_OBJECTS)
def test_a_schema_in_the_dialect_of_gemini_goes_as_it_is(schema: Any) -> None:
    if gemini_problem(schema) == "" and not {"anyOf", "enum", "$ref"} & schema.keys():
        assert sendable_to_gemini(as_json(schema)) == schema


def test_words_that_gemini_does_not_know_stand_in_the_description_with_their_place() -> None:
    names = {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": "^x"}}
    sent = sendable_to_gemini(
        as_json({"type": "object", "description": "Which.", "properties": {"a": names}})
    )
    assert sent["properties"] == {"a": {"type": "array", "items": {"type": "string"}}}
    head, _, words = sent["description"].partition("\nAlso: ")
    assert head == "Which."
    assert json.loads(words) == {
        "/properties/a": {"uniqueItems": True},
        "/properties/a/items": {"pattern": "^x"},
    }


@given(schema=_OBJECTS)
def test_the_schema_sent_describes_an_object_without_words_that_services_refuse(schema: Any) -> None:
    sent = sendable(as_json(schema))
    assert sent["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} & sent.keys()


@given(schema=_OBJECTS)
def test_only_a_schema_that_is_strict_as_it_stands_is_strict(schema: Any) -> None:
    if is_strict(sendable(as_json(schema))):
        assert sendable(as_json(schema)) == schema
        assert set(schema.get("required", ())) == set(schema.get("properties", {}))


def test_a_usual_schema_goes_as_it_is() -> None:
    assert sendable(as_json(OBJECT)) == OBJECT


def test_lost_words_go_into_the_description() -> None:
    sent = sendable(as_json({"description": "Which.", "anyOf": [OBJECT, {"required": ["b"]}]}))
    assert sent["description"].startswith("Which.\nAlso: ")
    assert '"required":["b"]' in sent["description"]


@table(
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
