import pytest

from callboard.runtime.schemas.limits import INLINE_STEPS
from callboard.runtime.schemas.step_budget import is_cheap
from tests.runtime.schemas.kit import DOUBLING, accepted, refusals, text


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "number", ["1e308", "1.5E-10", "-2e+99", "10000000000000000000", "-9223372036854775809"]
)
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
