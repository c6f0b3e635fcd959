import pytest
from jsonschema import Draft202012Validator
from referencing import Registry

from callboard.runtime.schemas.patterns import Pattern
from callboard.runtime.schemas.prepare import Choices, QuietDict, QuietList, Reference, prepare, quiet, size
from tests.runtime.schemas.kit import accepted

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def prepared(schema: object) -> object:
    return prepare(accepted(schema).outline)


def test_a_value_is_the_same_value_with_short_representations() -> None:
    value = {"a": [1, None, "x" * 5_000], "b": {"c": True}}
    quietened = quiet(value)
    assert quietened == value
    assert repr(quietened) == "{...}"
    assert isinstance(quietened, dict)
    assert len(repr(quietened["a"])) + len(repr(quietened["a"][2])) < 20


def test_the_number_of_values_is_counted_on_the_way() -> None:
    assert size(quiet({"a": [1, 2], "b": {}})) == 5
    assert size("text") == 1


def test_a_schema_keeps_its_keywords_but_not_its_dialect() -> None:
    assert prepared({"$schema": DIALECT, "items": {"$schema": DIALECT, "type": "string"}}) == {
        "items": {"type": "string"}
    }


def test_data_keeps_what_looks_like_a_dialect() -> None:
    schema = {"const": {"$schema": DIALECT}}
    assert prepared(schema) == schema


def test_a_reference_carries_its_target() -> None:
    root = prepared({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "null"}}})
    assert isinstance(root, QuietDict)
    reference = root["properties"]["a"]["$ref"]  # type: ignore[index]
    assert isinstance(reference, Reference)
    assert reference.target is root["$defs"]["a"]  # type: ignore[index]


def test_a_reference_to_false_means_nothing_is_allowed() -> None:
    root = prepared({"$ref": "#/$defs/no", "$defs": {"no": False}})
    assert isinstance(root, QuietDict)
    assert isinstance(root["$ref"], Reference)
    assert root["$ref"].target == {"not": {}}


def test_patterns_and_choices_are_made_ready() -> None:
    root = prepared({"pattern": "a", "patternProperties": {"b": {}}, "enum": [1, "x"]})
    assert isinstance(root, QuietDict)
    assert isinstance(root["pattern"], Pattern)
    assert isinstance(next(iter(root["patternProperties"])), Pattern)  # type: ignore[call-overload]
    assert isinstance(root["enum"], Choices)
    assert root["enum"].texts == {"1", '"x'}


@pytest.mark.parametrize(
    "keyword", ["items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"]
)
def test_false_stays_false_where_a_keyword_has_words_for_it(keyword: str) -> None:
    assert prepared({keyword: False}) == {keyword: False}


def test_false_elsewhere_becomes_a_schema_whose_errors_have_a_path() -> None:
    root = prepared({"properties": {"a": False}})
    error = next(Draft202012Validator(root, registry=Registry()).iter_errors({"a": 1}))
    assert list(error.path) == ["a"]


def test_lists_and_objects_remain_what_jsonschema_takes_for_lists_and_objects() -> None:
    assert isinstance(quiet([[]]), QuietList)
    assert Draft202012Validator({"type": "array"}, registry=Registry()).is_valid(quiet([[]]))
