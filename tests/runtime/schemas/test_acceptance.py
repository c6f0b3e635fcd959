import pytest

from callboard.runtime.schemas import explain
from callboard.runtime.schemas.acceptance import TooMuch, accept
from callboard.runtime.schemas.limits import (
    INLINE_PATTERNS,
    INLINE_SCHEMA_BYTES,
    SCHEMA_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
)
from tests.runtime.schemas.kit import accepted, chain_of, refusals, text


def test_an_everyday_schema_is_accepted() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answer",
        "type": "object",
        "properties": {
            "agent": {"type": "integer"},
            "notes": {"type": "array", "items": {"$ref": "#/$defs/n"}},
        },
        "required": ["agent"],
        "additionalProperties": False,
        "$defs": {"n": {"type": "string", "pattern": "^[a-z]+$", "format": "email"}},
    }
    assert accepted(schema).steps == 217


def test_an_object_without_keywords_is_a_schema() -> None:
    assert accepted({}).steps == 1


def test_broken_json_is_refused_with_the_parsers_reason() -> None:
    [(path, message)] = refusals(b'{"type": ')
    assert path == ""
    assert message.startswith("not JSON: ")


def test_length_is_judged_before_anything_else() -> None:
    fits = b"{" + b" " * (SCHEMA_BYTES_MAX - 2) + b"}"
    assert refusals(fits) == []
    assert refusals(fits + b" ") == [("", "has 65,537 bytes, at most 65,536 are allowed: simplify it")]


def test_depth_counts_data_as_well_as_subschemas() -> None:
    assert refusals({"const": chain_of(SCHEMA_DEPTH_MAX - 1, 1)}) == []
    assert "nests more than 32 levels" in refusals({"const": chain_of(SCHEMA_DEPTH_MAX, 1)})[0][1]
    assert "nests" in refusals(b'{"not":' * 5_000 + b"{}" + b"}" * 5_000)[0][1]


def test_a_pattern_that_cannot_be_used_is_named_with_its_place() -> None:
    [(path, message)] = refusals({"patternProperties": {"(a/b": {}}})
    assert path == "/patternProperties/(a~1b"
    assert message.startswith("is no regular expression that can be used")


def test_unknown_keywords_are_annotations() -> None:
    accepted({"type": "string", "x-order": 1, "id": "http://example.com/x", "nullable": True})


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^\\p{L}{1,100}$"},
        {"pattern": "(?=a)"},
        {"anyOf": [{"pattern": str(index)} for index in range(INLINE_PATTERNS + 1)]},
        {"description": "x" * INLINE_SCHEMA_BYTES},
        {"type": "whole"},
    ],
)
def test_schemas_that_the_loop_leaves_to_the_worker(schema: object) -> None:
    with pytest.raises(TooMuch):
        accept(text(schema), is_bounded=True)


@pytest.mark.parametrize(
    ("schema", "path", "words"),
    [
        ({"type": "strnig"}, "/type", 'must be one of "array", "boolean", "integer", "null"'),
        (
            {"properties": {"a": {"required": True}}},
            "/properties/a/required",
            "must be array, got true; in an object's schema, list the required names",
        ),
        ({"exclusiveMinimum": True}, "/exclusiveMinimum", "must be number, got true; true and false were"),
        ({"items": [{}]}, "/items", "write prefixItems for one schema per position"),
        ({"minLength": -1}, "/minLength", "must be at least 0, got -1"),
        ({"properties": {"a": "string"}}, "/properties/a", 'must be boolean or object, got "string"'),
        ({"allOf": []}, "/allOf", "must have at least 1 item, got 0"),
        ({"$anchor": "1a"}, "/$anchor", "must match the regular expression"),
        ({"$id": "x#y"}, "/$id", "must match the regular expression"),
        ({"multipleOf": 0}, "/multipleOf", "must be above 0, got 0"),
        ({"multipleOf": 1e-10}, "/multipleOf", "must be at least 1e-09, not 1e-10"),
    ],
)
def test_a_refusal_says_where_and_what_to_change(schema: object, path: str, words: str) -> None:
    [(where, message)] = refusals(schema)
    assert where == path
    assert words in message


def test_a_schema_that_only_jsonschema_rs_refuses_is_refused_in_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain, "report_problems", lambda *_: ())
    assert refusals({"minLength": -1}) == [("", "the value is less than the minimum of 0")]
