import pytest

from callboard.runtime.schemas.faults import UNKNOWN, Fault, faults_of
from tests.runtime.schemas.kit import accepted, problems

NAMED = {
    "$defs": {
        "a": {
            "$id": "http://example.com/a",
            "properties": {"k": {"$ref": "#/$defs/z"}},
            "$defs": {"z": {"type": ["string", "null"], "required": ["p", "q"], "uniqueItems": True}},
        },
        "z": {"type": "integer", "required": ["other"]},
    },
    "properties": {"p": {"$ref": "http://example.com/a"}},
}


def faults(schema: object, value: object) -> list[Fault]:
    ready = accepted(schema)
    return faults_of(ready.validator.iter_errors(value), ready.schema, value)


def test_a_fault_has_the_schemas_own_text_behind_references() -> None:
    schema = {"items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": ["string", "null"], "title": "t"}}}
    [fault] = faults(schema, ["a", 1])
    assert (fault.path, fault.keyword, fault.value) == ((1,), "type", 1)
    assert fault.wanted == ["string", "null"]
    assert fault.beside == {"type": ["string", "null"], "title": "t"}


def test_the_alternatives_have_faults_of_their_own() -> None:
    schema = {"properties": {"p": {"anyOf": [{"type": "string"}, {"properties": {"q": {"minimum": 2}}}]}}}
    [fault] = faults(schema, {"p": {"q": 1}})
    [[one], [other]] = fault.branches
    assert (one.path, one.keyword, one.value) == (("p",), "type", {"q": 1})
    assert (other.path, other.keyword, other.wanted) == (("p", "q"), "minimum", 2)


def test_items_false_is_one_fault_of_the_array_for_each_item() -> None:
    found = faults({"prefixItems": [{}], "items": False}, [1, 2, 3])
    assert {(fault.path, fault.keyword) for fault in found} == {((), "items")}
    [fault] = faults({"properties": {"items": False}}, {"items": 1})
    assert (fault.path, fault.keyword, fault.wanted) == (("items",), "false", False)


def test_a_property_named_as_a_keyword_is_none() -> None:
    schema = {"properties": {"false": {"title": "t"}, "x": False}}
    [fault] = faults(schema, {"x": 1})
    assert (fault.keyword, fault.wanted, fault.beside) == ("false", False, {})


@pytest.mark.parametrize(
    ("value", "keyword", "wanted", "message"),
    [
        (1, "type", {"string", "null"}, "must be "),
        ({"p": 1}, "required", "q", 'required property missing: "q"'),
        ([1, 1], "uniqueItems", UNKNOWN, "the value has non-unique elements"),
    ],
)
def test_a_schema_that_names_its_parts_is_never_looked_up_in_the_wrong_part(
    value: object, keyword: str, wanted: object, message: str
) -> None:
    found = {fault.keyword: fault for fault in faults(NAMED, {"p": {"k": value}})}
    got = found[keyword].wanted
    assert (set(got) if isinstance(got, list) else got) == wanted
    assert found[keyword].beside == {}
    assert any(text.startswith(message) for _, text in problems(NAMED, {"p": {"k": value}}))
