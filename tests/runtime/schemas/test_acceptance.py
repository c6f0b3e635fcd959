import pytest

from callboard.runtime.schemas.acceptance import TooMuch, accept
from callboard.runtime.schemas.limits import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX
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
    assert accepted(schema).width == 2


def test_an_object_without_keywords_is_a_schema() -> None:
    assert accepted({}).width == 1


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


def test_a_pattern_that_re2_cannot_use_is_named_with_its_place() -> None:
    [(path, message)] = refusals({"patternProperties": {"(?=a/b)": {}}})
    assert path == "/patternProperties/(?=a~1b)"
    assert message.startswith("RE2 cannot use this regular expression, invalid perl operator: (?=")


def test_patterns_are_not_compiled_beyond_the_work_that_is_allowed() -> None:
    schema = text({"pattern": "^\\p{L}{1,100}$"})
    with pytest.raises(TooMuch):
        accept(schema, pattern_work=20_000)
    accept(schema)
