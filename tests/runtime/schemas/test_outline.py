import pytest

from callboard.runtime.schemas.outline import outline_of
from tests.runtime.schemas.kit import accepted, refusals


def test_every_subschema_has_a_pointer_and_edges() -> None:
    outline = outline_of({"properties": {"a/b": {"items": True}}, "anyOf": [{}, False]})
    assert list(outline.nodes) == ["", "/properties/a~1b", "/properties/a~1b/items", "/anyOf/0", "/anyOf/1"]
    assert outline.edges[""] == [
        ("properties", "/properties/a~1b"),
        ("anyOf", "/anyOf/0"),
        ("anyOf", "/anyOf/1"),
    ]


def test_references_inside_data_are_data() -> None:
    remote = {"$ref": "http://127.0.0.1/x", "$id": "http://127.0.0.1/y"}
    accepted({"const": remote, "enum": [remote], "default": remote, "examples": [remote], "x-note": remote})


def test_a_property_may_be_named_like_a_keyword() -> None:
    accepted({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "pattern": {}}})


def test_unknown_keywords_are_annotations() -> None:
    accepted({"type": "string", "x-order": 1, "id": "http://example.com/x", "nullable": True})


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "strnig"}, "/type", "must be one of array, boolean, integer, null, number, object, string"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required", "list the required names"),
        ({"exclusiveMinimum": True}, "/exclusiveMinimum", "that was draft 4"),
        ({"items": [{}]}, "/items", "write prefixItems"),
        ({"minLength": -1}, "/minLength", "a whole number that is not negative, not -1"),
        (
            {"properties": {"a": "string"}},
            "/properties/a",
            'must be a schema, that is an object, true or false, not "string"',
        ),
        ({"allOf": []}, "/allOf", "an array of at least one schema, not []"),
        ({"$anchor": "1a"}, "/$anchor", "a name of letters"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, "/$defs/b/$anchor", "there twice"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema", "leave $schema out"),
        ({"items": {"$dynamicRef": "#a"}}, "/items/$dynamicRef", "write $ref"),
        ({"dependencies": {}}, "/dependencies", "dependentRequired"),
    ],
)
def test_a_refusal_says_where_and_what_to_change(schema: object, path: str, words: str) -> None:
    [(where, message)] = refusals(schema)
    assert where == path
    assert words in message


def test_several_problems_are_told_at_once_and_not_more_than_ten() -> None:
    assert len(refusals({"properties": {str(index): {"type": index} for index in range(50)}})) == 10


def test_the_dialect_may_be_named_anywhere() -> None:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    accepted({"$schema": dialect, "properties": {"a": {"$schema": f"{dialect}#", "type": "string"}}})


def test_a_thousand_subschemas_are_accepted_and_one_more_is_not() -> None:
    accepted({"$defs": {str(index): True for index in range(999)}})
    [(path, message)] = refusals({"$defs": {str(index): True for index in range(1_000)}})
    assert (path, message) == ("", "has more than 1,000 subschemas: simplify it")
