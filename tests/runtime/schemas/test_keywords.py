from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from callboard.runtime.schemas.keywords import NEVER_APPLIED, PLACES, REFUSED, SAME_VALUE, SHAPES
from tests.runtime.schemas.kit import refusals

META = Draft202012Validator.META_SCHEMA
OURS = sorted(set(SHAPES) - set(REFUSED) - {"$ref", "$schema", "$anchor", "pattern", "multipleOf"})
"""Keywords about whose values we say exactly what the meta-schema says; of the others we ask more."""

schemas = st.sampled_from([{}, True, False, {"type": "string"}])
odd: st.SearchStrategy[object] = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 1.5, -0.5, 10**30, "", "string", "a/b", [], {}, ["x", "x"]]
)
shaped = st.sampled_from(
    [["string"], ["string", "null"], ["a", "b"], [1], {"a": ["b"]}, {"a": ["b", "b"]}, {"a": 1}]
)
held = st.lists(schemas | odd, max_size=2) | st.dictionaries(st.sampled_from("ab"), schemas | odd, max_size=2)


def is_valid_for_jsonschema(schema: object) -> bool:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError:
        return False
    return True


@given(st.sampled_from(OURS), odd | shaped | schemas | held)
def test_the_table_agrees_with_the_meta_schema(keyword: str, value: object) -> None:
    schema = {keyword: value}
    assert (refusals(schema) == []) == is_valid_for_jsonschema(schema), refusals(schema)


def test_every_keyword_of_the_draft_is_in_the_table_or_refused() -> None:
    known = set(Draft202012Validator.VALIDATORS) - {"$dynamicRef"}
    assert known <= set(SHAPES) | {"const"}, "const may be anything"


def test_every_place_of_subschemas_has_a_shape() -> None:
    assert set(PLACES) <= set(SHAPES)
    assert SAME_VALUE - {"$ref"} <= set(PLACES)
    assert set(PLACES) >= NEVER_APPLIED


def test_the_meta_schema_itself_is_refused_for_its_id_and_dynamic_references() -> None:
    assert "/$id" in dict(refusals(META))
