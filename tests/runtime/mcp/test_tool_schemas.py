"""Schemas of arguments that services take."""

from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.mcp.tool_schemas import usable
from tests.effort import effort
from tests.tables import table

AT_TOP = {"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const"}
NAMES = ("id", "slug", "#", "/")
WORDS = ("string", "int", "object", "any", "null", "array")

odd: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["a", "string"])
    | st.just([])
    | st.just({})
)
schemas: st.SearchStrategy[Any] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(WORDS) | st.lists(st.sampled_from(WORDS), max_size=2) | odd,
            "properties": st.dictionaries(st.sampled_from(NAMES), schemas | odd, max_size=2) | odd,
            "required": st.lists(st.sampled_from(NAMES) | odd, max_size=3) | odd,
            "anyOf": st.lists(schemas | odd, max_size=2) | odd,
            "oneOf": st.lists(schemas | odd, max_size=2) | odd,
            "allOf": st.lists(schemas | odd, max_size=2) | odd,
            "items": schemas | st.lists(schemas, max_size=2) | odd,
            "not": schemas | odd,
            "if": schemas | odd,
            "enum": st.lists(odd, max_size=2) | odd,
            "additionalProperties": schemas | odd,
            "$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#", "#a", "#/anyOf/0", "x.json"]) | odd,
            "$defs": st.dictionaries(st.sampled_from("AB"), schemas | odd, max_size=2) | odd,
            "description": st.text(max_size=5) | odd,
            "minimum": st.integers() | odd,
        },
    )
)


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(100, 4_000), deadline=None)
@given(schemas | odd)
def test_every_schema_is_refused_or_becomes_one_that_services_take(given_schema: Any) -> None:
    before = msgspec.json.encode(given_schema)
    try:
        schema, _ = usable(given_schema)
    except ValueError:
        return
    assert msgspec.json.encode(given_schema) == before
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    assert not AT_TOP & schema.keys()
    assert usable(schema) == (schema, [])


@table(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"$ref": "#a"}}, "$defs": {"A": {"$anchor": "a"}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        {"type": "object", "$id": "https://example.com/a", "properties": {"a": {"$ref": "#/b"}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"], "x-mine": [1]},
    ],
)
def test_a_schema_that_services_take_stays_as_it_is(schema: dict[str, Any]) -> None:
    assert usable(schema) == (schema, [])


@table("schema", [None, True, {}, {"type": "text"}, {"type": 3}, {"type": ["object", "null"]}])
def test_a_schema_without_a_type_is_one_of_an_object(schema: object) -> None:
    assert usable(schema)[0] == {"type": "object"}


@table(
    "schema",
    [False, "object", [], 5, {"type": "string"}, {"type": ["null"]}, {"anyOf": [{"type": "array"}, False]}],
)
def test_a_schema_of_anything_else_is_refused(schema: object) -> None:
    with pytest.raises(ValueError, match=r"schema|branch"):
        usable(schema)


def test_the_branches_at_the_top_become_fields() -> None:
    schema = {
        "description": "A thing.",
        "properties": {"how": {"type": "string"}},
        "required": ["how"],
        "oneOf": [
            {"properties": {"id": {"type": "integer"}}, "required": ["id", "key"]},
            {"$ref": "#/$defs/Slug"},
        ],
        "allOf": [{"required": ["key"]}, {"if": {}, "then": {"required": ["id"]}}],
        "$defs": {"Slug": {"properties": {"id": {"type": "string"}}, "required": ["key"]}},
    }
    found, mended = usable(schema)
    assert found["properties"] == {
        "how": {"type": "string"},
        "id": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    }
    assert found["required"] == ["how", "key"]
    assert found["description"].startswith('A thing. The arguments must fit: {"oneOf": [')
    assert mended == ["oneOf, allOf at its top"]


# Each of a public report: `required: null`; fields with `required: true`; a reference at the top.
def test_the_schemas_of_public_reports_become_usable() -> None:
    assert usable({"type": "object", "properties": {}, "required": None})[0] == {
        "type": "object",
        "properties": {},
    }
    fields = {"schema": {"type": "object", "properties": {"a": {"type": "string", "required": True}}}}
    (found, mended) = usable({"type": "object", "properties": fields})
    assert found["properties"]["schema"]["properties"] == {"a": {"type": "string"}}
    assert mended == ["the value of properties.schema.properties.a.required"]
    ask = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    (found, mended) = usable({"$ref": "#/components/schemas/Ask", "components": {"schemas": {"Ask": ask}}})
    assert found["properties"] == {"text": {"type": "string"}}
    assert (found["required"], found["type"], mended) == (["text"], "object", ["$ref at its top"])


def test_a_fault_inside_is_left_out_and_its_field_stays() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": "string",
            "b": {"type": "int", "required": True, "description": "how many"},
            "c": {"$ref": "#/$defs/Nope"},
            "d": {"type": "array", "items": [{"type": "string"}]},
        },
        "required": ["a", 5],
    }
    found, mended = usable(schema)
    assert found["properties"] == {"a": {}, "b": {"description": "how many"}, "c": {}, "d": {"type": "array"}}
    assert found["required"] == ["a"]
    assert "the value of properties.b.type" in mended
    assert "the reference #/$defs/Nope" in mended


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(500):
        schema = {"properties": {"a": schema}}
    with pytest.raises(ValueError, match="nested too deeply"):
        usable(schema)
