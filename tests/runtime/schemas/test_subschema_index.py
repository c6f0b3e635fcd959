import pytest

from callboard.runtime.schemas.subschema_index import DIALECT, PLACES, index_of
from tests.runtime.schemas.kit import accepted, problems, refusals


def test_every_subschema_has_a_pointer_and_edges() -> None:
    index = index_of({"properties": {"a/b": {"items": True}}, "anyOf": [{}, False]})
    assert list(index.nodes) == ["", "/properties/a~1b", "/properties/a~1b/items", "/anyOf/0", "/anyOf/1"]
    assert index.edges[""] == [
        ("properties", "/properties/a~1b"),
        ("anyOf", "/anyOf/0"),
        ("anyOf", "/anyOf/1"),
    ]


def test_references_inside_data_are_data() -> None:
    remote = {"$ref": "http://127.0.0.1/x", "$id": "http://127.0.0.1/y"}
    accepted({"const": remote, "enum": [remote], "default": remote, "examples": [remote], "x-note": remote})


def test_a_property_may_be_named_like_a_keyword() -> None:
    accepted({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}, "pattern": {}}})


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#/$defs/a", {"a": {"type": "null"}}),
        ("#/$defs/a~1b", {"a/b": {"type": "null"}}),
        ("#/$defs/a%25b", {"a%b": {"type": "null"}}),
        ("#/$defs/%C3%A9", {"é": {"type": "null"}}),
        ("#here", {"a": {"$anchor": "here", "type": "null"}}),
        ("#here", {"a": {"$dynamicAnchor": "here", "type": "null"}}),
        ("#/$defs/a/anyOf/1", {"a": {"anyOf": [{}, {"type": "null"}]}}),
        ("item.json", {"a": {"$id": "item.json", "type": "null"}}),
        ("item.json#here", {"a": {"$id": "item.json", "items": {"$anchor": "here", "type": "null"}}}),
        ("item.json#/items", {"a": {"$id": "item.json", "items": {"type": "null"}}}),
        ("http://127.0.0.1:9/base/x", {"a": {"$id": "x", "type": "null"}}),
        ("/base/x", {"a": {"$id": "x", "type": "null"}}),
        ("urn:x:y#/items", {"a": {"$id": "urn:x:y", "items": {"type": "null"}}}),
        ("urn:x:y", {"a": {"$id": "urn:x:y", "$ref": "#/items", "items": {"type": "null"}}}),
    ],
)
def test_references_mean_a_place_of_the_schema(reference: str, definitions: dict[str, object]) -> None:
    schema = {"$id": "http://127.0.0.1:9/base/", "properties": {"x": {"$ref": reference}}}
    schema["$defs"] = definitions
    assert problems(schema, {"x": None}) == []
    assert problems(schema, {"x": 1}) == [("/x", "must be null, got 1")]


def test_the_meta_schema_may_be_referred_to() -> None:
    schema = {"properties": {"schema": {"$ref": DIALECT}}}
    assert problems(schema, {"schema": {"type": "null"}}) == []
    assert [path for path, _ in problems(schema, {"schema": {"type": 1}})] == ["/schema/type"]


@pytest.mark.parametrize("reference", ["#/$defs/b", "#there", "#/$defs", "#/$defs/a/const", "#/type", "#%ZZ"])
def test_a_reference_to_where_no_schema_stands_is_refused(reference: str) -> None:
    [(path, message)] = refusals({"$ref": reference, "type": "object", "$defs": {"a": {"const": {}}}})
    assert path == "/$ref"
    assert "is not a place of this schema where a schema stands" in message


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1/x", "x.json", "file:///etc/passwd", "http://[", "urn:a:b#c", "//x"]
)
def test_a_reference_that_leads_out_of_the_schema_is_refused(keyword: str, reference: str) -> None:
    [(path, message)] = refusals({"items": {keyword: reference}})
    assert path == f"/items/{keyword}"
    assert "nothing is fetched" in message


@pytest.mark.parametrize(
    ("definitions", "path"),
    [
        ({"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}, "/$defs/b/$anchor"),
        ({"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}}, "/$defs/b/$dynamicAnchor"),
        ({"a": {"$id": "x.json"}, "b": {"$id": "x.json"}}, "/$defs/b/$id"),
    ],
)
def test_an_address_that_two_subschemas_have_is_refused(definitions: object, path: str) -> None:
    [(where, message)] = refusals({"$defs": definitions})
    assert where == path
    assert "is there twice: rename one of them" in message


def test_the_same_anchor_may_stand_in_two_resources() -> None:
    accepted({"$defs": {"a": {"$anchor": "x"}, "b": {"$id": "b", "$anchor": "x"}}})


def test_the_dialect_may_be_named_anywhere_and_no_other_one() -> None:
    accepted({"$schema": DIALECT, "properties": {"a": {"$schema": f"{DIALECT}#", "type": "string"}}})
    [(path, message)] = refusals({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}})
    assert path == "/items/$schema"
    assert "leave $schema out" in message


def test_several_problems_are_named_at_once_and_not_more_than_ten() -> None:
    assert len(refusals({"properties": {str(index): {"$ref": "x"} for index in range(50)}})) == 10


def test_a_thousand_subschemas_are_accepted_and_one_more_is_not() -> None:
    accepted({"$defs": {str(index): True for index in range(999)}})
    [(path, message)] = refusals({"$defs": {str(index): True for index in range(1_000)}})
    assert (path, message) == ("", "has more than 1,000 subschemas: simplify it")


def test_keywords_of_the_wrong_shape_hold_no_subschemas() -> None:
    index = index_of(dict.fromkeys(PLACES, 1))
    assert [path for path in index.nodes if path] == [
        f"/{each}" for each, how in PLACES.items() if how == "one"
    ]
    assert index.problems == []
