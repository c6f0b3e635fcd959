import pytest

from callboard.runtime.schemas.json_text import INLINE_STEPS
from callboard.runtime.schemas.subschema_index import DIALECT, PLACES, index_of, is_cheap
from tests.runtime.schemas.kit import DOUBLING, accepted, problems, refusals, text
from tests.tables import table


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


@table(
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


@table("reference", ["#/$defs/b", "#there", "#/$defs", "#/$defs/a/const", "#/type", "#%ZZ"])
def test_a_reference_to_where_no_schema_stands_is_refused(reference: str) -> None:
    [(path, message)] = refusals({"$ref": reference, "type": "object", "$defs": {"a": {"const": {}}}})
    assert path == "/$ref"
    assert "is not a place of this schema where a schema stands" in message


@table("keyword", ["$ref", "$dynamicRef"])
@table("reference", ["http://127.0.0.1/x", "x.json", "file:///etc/passwd", "http://[", "urn:a:b#c", "//x"])
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


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def doubled(levels: int) -> dict[str, object]:
    """Return a schema that stands for 2 ** levels subschemas on the same value."""
    definitions = {str(index): {"allOf": [ref(str(index + 1))] * 2} for index in range(levels)}
    return {**ref("0"), "$defs": {**definitions, str(levels): {}}}


def steps(schema: object) -> int:
    found = accepted(schema).steps
    assert found is not None
    return found


@table(
    ("schema", "figure"),
    [
        ({}, 1),
        ({"type": "string"}, 2),
        ({"properties": {"a": {}, "b": {}}, "additionalProperties": {}}, 4),
        ({"enum": [1, {"a": [2, 3]}]}, 7),
        ({"$defs": {"unused": {"anyOf": [{}] * 50}}}, 1),
        ({"anyOf": [ref("a"), ref("a")], "$defs": {"a": {"items": {}}}}, 9),
        ({"pattern": "a"}, 202),
        ({"patternProperties": {"a": {}, "b": {}}}, 403),
        ({"multipleOf": 2}, 202),
        ({"anyOf": [{}], "unevaluatedItems": False}, 9),
    ],
)
def test_every_value_of_a_schema_is_a_step_each_time_it_is_reached(schema: object, figure: int) -> None:
    assert steps(schema) == figure


def test_a_doubled_definition_counts_each_time_it_is_reached() -> None:
    assert steps(doubled(10)) > 2**10
    assert steps(doubled(11)) > 2 * steps(doubled(10))


def test_nested_unevaluated_keywords_count_as_often_as_they_look() -> None:
    schema: object = {"type": "object"}
    for _ in range(14):  # 0.1 s of jsonschema-rs for one property
        schema = {"anyOf": [schema], "unevaluatedProperties": False}
    assert not is_cheap(accepted(schema).steps, b'{"b": 1}')


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"left": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}},
        DOUBLING,
        {"items": {"$dynamicRef": "#node"}, "$defs": {"a": {"$dynamicAnchor": "node"}}},
        {"items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
    ],
)
def test_a_schema_whose_work_depends_on_the_value_has_no_figure(schema: object) -> None:
    assert accepted(schema).steps is None
    assert not is_cheap(None, b"1")


def test_a_check_is_cheap_up_to_its_steps_and_not_beyond() -> None:
    assert is_cheap(10, text([1] * 1_000))
    assert is_cheap(INLINE_STEPS, b"1")
    assert not is_cheap(INLINE_STEPS + 1, b"1")
    assert not is_cheap(INLINE_STEPS // 1_000, text([1] * 1_000))


def test_long_texts_count_by_their_length() -> None:
    assert is_cheap(100, text("x" * 10_000))
    assert not is_cheap(100, text("x" * 20_000))


@table("number", ["1e308", "1.5E-10", "-2e+99", "10000000000000000000", "-9223372036854775809"])
def test_numbers_that_need_big_integers_are_not_cheap(number: str) -> None:
    for value in (number, f"[{number}]", f'{{"a": {number}}}', f"[1, {number}]"):
        assert not is_cheap(1, value.encode())
    assert accepted(f'{{"maximum": {number}}}'.encode()).steps is None


def test_ordinary_numbers_and_texts_are_cheap() -> None:
    assert is_cheap(1, text([10**17, 2.5, 1e5, "1e308", "4e99f1b2-0000-4e10-8e77-000000000000"]))


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_loop_through_a_combinator_is_refused(keyword: str) -> None:
    [(path, message)] = refusals({"properties": {"a": {keyword: [{"$ref": "#/properties/a"}]}}})
    assert path.startswith("/properties/a")
    assert "never ends: put the $ref under properties or items" in message


@pytest.mark.parametrize("keyword", ["not", "if", "then", "else"])
def test_a_loop_through_a_condition_is_refused(keyword: str) -> None:
    assert "never ends" in refusals({keyword: {"$ref": "#"}})[0][1]


def test_a_loop_through_dependent_schemas_is_refused() -> None:
    assert "never ends" in refusals({"dependentSchemas": {"a": {"$ref": "#"}}})[0][1]


def test_the_loop_is_named_and_not_its_approach() -> None:
    [(path, _)] = refusals({"allOf": [ref("a")], "$defs": {"a": ref("b"), "b": ref("a")}})
    assert path in ("/$defs/a", "/$defs/b")


def test_a_thousand_references_in_a_row_do_not_exceed_the_stack() -> None:
    names = {str(index): ref(str(index + 1)) for index in range(900)}
    assert steps({**ref("0"), "$defs": {**names, "900": {}}}) == 1 + 901 * 2


def test_doubling_beyond_all_patience_is_refused() -> None:
    assert refusals(doubled(24)) == []
    [(path, message)] = refusals(doubled(40))
    assert (path, message) == (
        "",
        "needs more than 1,000,000,000 steps for one value once references are followed: simplify it",
    )
