import pytest

from tests.runtime.schemas.kit import DOUBLING, accepted, refusals


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


@pytest.mark.parametrize(
    ("reference", "definitions"),
    [
        ("#", {}),
        ("#/$defs/a", {"a": {}}),
        ("#/$defs/a~1b", {"a/b": {}}),
        ("#/$defs/a%25b", {"a%b": {}}),
        ("#/$defs/%C3%A9", {"é": {}}),
        ("#here", {"a": {"$anchor": "here"}}),
        ("#/$defs/a/anyOf/1", {"a": {"anyOf": [{}, True]}}),
    ],
)
def test_references_mean_a_place_of_the_schema(reference: str, definitions: dict[str, object]) -> None:
    accepted({"properties": {"x": {"$ref": reference}}, "$defs": definitions})


@pytest.mark.parametrize("reference", ["#/$defs/b", "#there", "#/$defs", "#/$defs/a/const", "#/type", "#%ZZ"])
def test_a_reference_to_where_no_schema_stands_is_refused(reference: str) -> None:
    [(path, message)] = refusals({"$ref": reference, "type": "object", "$defs": {"a": {"const": {}}}})
    assert path == "/$ref"
    assert "is no place of this schema where a schema stands" in message


def test_a_tree_may_refer_to_itself_beneath_a_consuming_keyword() -> None:
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "all": {"items": {"$ref": "#"}}}}
    assert accepted(tree).width is None


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_loop_through_a_combinator_is_refused(keyword: str) -> None:
    [(path, message)] = refusals({"properties": {"a": {keyword: [{"$ref": "#/properties/a"}]}}})
    assert path.startswith("/properties/a")
    assert "never ends: put the $ref under properties or items" in message


@pytest.mark.parametrize("keyword", ["not", "if", "then", "else"])
def test_a_loop_through_a_condition_is_refused(keyword: str) -> None:
    assert refusals({keyword: {"$ref": "#"}})


def test_a_loop_through_dependent_schemas_is_refused() -> None:
    assert refusals({"dependentSchemas": {"a": {"$ref": "#"}}})


def test_the_loop_is_named_and_not_what_leads_to_it() -> None:
    [(path, _)] = refusals({"allOf": [ref("a")], "$defs": {"a": ref("b"), "b": ref("a")}})
    assert path in ("/$defs/a", "/$defs/b")


def test_thirty_two_references_in_a_row_are_accepted_and_one_more_is_not() -> None:
    def row(length: int) -> object:
        names = {str(i): ref(str(i + 1)) for i in range(length - 1)}
        return {**ref("0"), "$defs": {**names, str(length - 1): {}}}

    accepted(row(31))
    assert "follows more than 32 references" in refusals(row(32))[0][1]


def test_a_thousand_references_in_a_row_do_not_exceed_the_stack() -> None:
    names = {str(index): ref(str(index + 1)) for index in range(900)}
    assert "references and combinators in a row" in refusals({"$defs": {**names, "900": {}}})[0][1]


def test_doubling_on_the_same_value_is_refused() -> None:
    definitions = {str(i): {"allOf": [ref(str(i + 1))] * 2} for i in range(10)}
    assert (
        "makes more than 1,000 subschemas look at one value"
        in refusals({**ref("0"), "$defs": {**definitions, "10": {}}})[0][1]
    )


def test_doubling_at_every_next_level_of_the_value_is_refused() -> None:
    definitions = {str(i): {"allOf": [{"properties": {"a": ref(str(i + 1))}}] * 2} for i in range(12)}
    assert "look at one part of a value" in refusals({**ref("0"), "$defs": {**definitions, "12": {}}})[0][1]


def test_doubling_by_recursion_is_accepted_and_left_to_the_bounds_of_the_check() -> None:
    assert accepted(DOUBLING).width is None


def test_many_references_to_one_definition_cost_nothing_beside_each_other() -> None:
    money = {"properties": {"amount": {"type": "number"}, "currency": {"type": "string"}}}
    fields = {f"f{index}": ref("money") for index in range(400)}
    assert accepted({"properties": fields, "$defs": {"money": money}}).width == 2


@pytest.mark.parametrize(
    ("schema", "width"),
    [
        ({}, 1),
        ({"properties": {"a": {}, "b": {}}, "additionalProperties": {}}, 1),
        ({"prefixItems": [{}, {}], "items": {}, "contains": {}}, 2),
        ({"anyOf": [{}, {}]}, 3),
        ({"properties": {"a": {"anyOf": [{}, {}]}}, "patternProperties": {"a": {}, "b": {}}}, 5),
        ({"allOf": [{"items": {}}, {"items": {}}, {"items": {}}]}, 4),
        ({"$defs": {"unused": {"anyOf": [{}] * 50}}}, 1),
    ],
)
def test_the_width_is_how_many_subschemas_may_look_at_one_value(schema: object, width: int) -> None:
    assert accepted(schema).width == width
