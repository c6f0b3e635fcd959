import sys
from types import FrameType

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.port_messages import CheckSchema
from callboard.runtime.schemas import json_text, validation
from callboard.runtime.schemas.engine import Engine, TooMuch, accept
from callboard.runtime.schemas.json_text import (
    INLINE_PATTERNS,
    INLINE_SCHEMA_BYTES,
    SCHEMA_BYTES_MAX,
    SCHEMA_DEPTH_MAX,
)
from tests.effort import effort
from tests.runtime.schemas.kit import (
    DOUBLING,
    ENDLESS,
    accept_request,
    accepted,
    chain_of,
    on_the_loop,
    refusals,
    report,
    report_request,
    text,
    unbounded,
)
from tests.tables import table

COUNTS = {
    "type": "object",
    "properties": {"agent": {"type": "integer"}, "total": {"type": "integer"}},
    "required": ["agent", "total"],
    "additionalProperties": False,
}


def test_a_good_schema_is_ok_and_a_bad_one_invalid() -> None:
    assert unbounded().check(accept_request(COUNTS)).status == "ok"
    refused = unbounded().check(accept_request({"type": "whole"}))
    assert (refused.status, refused.problems[0].path) == ("invalid", "/type")


def test_the_answer_carries_the_number_of_the_check() -> None:
    request = CheckSchema(77, "accept", msgspec.Raw(b"{}"))
    assert unbounded().check(request).check == 77


def test_a_report_is_ok_or_invalid() -> None:
    assert report(COUNTS, {"agent": 1, "total": 2}).status == "ok"
    assert report(COUNTS, {"agent": 1}).status == "invalid"


def test_a_report_under_a_schema_that_is_not_accepted_fails() -> None:
    answer = report({"type": "whole"}, 1)
    assert answer.status == "failed"
    assert answer.problems[0].message.startswith("the schema itself is not accepted: /type: must be one of")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b'"' + b"x" * json_text.VALUE_BYTES_MAX + b'"', "has 1,048,578 bytes"),
        (chain_of(65, 1), "nests more than 64 levels"),
        (b"[" * 5_000 + b"]" * 5_000, "nests too deeply"),
    ],
)
def test_a_value_beyond_a_limit_fails_with_the_limit(value: object, words: str) -> None:
    answer = report({}, value)
    assert answer.status == "failed"
    assert words in answer.problems[0].message


def test_values_at_the_limits_are_answered() -> None:
    assert report({}, chain_of(64, 1)).status == "ok"
    assert report({"items": {"type": "integer"}}, [0] * 100_000).status == "ok"


def test_a_value_that_is_no_json_is_invalid() -> None:
    answer = report({}, b"{'a': 1}")
    assert answer.status == "invalid"
    assert answer.problems[0].message.startswith("not JSON: ")


def test_the_loop_answers_good_reports_and_leaves_bad_ones_to_the_worker() -> None:
    engine = on_the_loop()
    assert engine.check(report_request(COUNTS, {"agent": 1, "total": 2})).status == "ok"
    assert engine.check(report_request(COUNTS, b"{")).status == "invalid"
    with pytest.raises(TooMuch):
        engine.check(report_request(COUNTS, {}))


@table(
    ("schema", "value"),
    [
        ({"description": "x" * json_text.INLINE_SCHEMA_BYTES}, 1),
        ({}, "x" * json_text.INLINE_VALUE_BYTES),
        ({"uniqueItems": True}, [10**25]),
        ({"pattern": "^(.*a){9}$"}, "a" * 20_000),
        ({"pattern": "^(?=a)"}, "a"),
        ({"items": {"enum": [{"a": index} for index in range(500)]}}, [{"a": 499}] * 100),
        ({"pattern": "^(?:\\p{L}\\d?){1,200}$"}, "x"),
        (DOUBLING, ENDLESS),
        ({"items": {"anyOf": [{"const": index} for index in range(200)]}}, [-1] * 50),
    ],
)
def test_what_exceeds_the_allowance_of_the_loop_is_left_to_the_worker(schema: object, value: object) -> None:
    engine = on_the_loop()
    for _ in range(2):  # the second time from memory
        with pytest.raises(TooMuch):
            engine.check(report_request(schema, value))


def test_an_engine_answers_after_it_gave_up() -> None:
    engine = on_the_loop()
    with pytest.raises(TooMuch):
        engine.check(report_request(DOUBLING, ENDLESS))
    assert engine.check(accept_request(DOUBLING)).status == "ok"
    assert engine.check(report_request(COUNTS, {"agent": 1, "total": 2})).status == "ok"


def test_schemas_are_remembered_within_bounds() -> None:
    engine = on_the_loop()
    for index in range(2 * json_text.CACHED_SCHEMAS):
        engine.check(accept_request({"const": index}))
    assert len(engine._entries) == json_text.CACHED_SCHEMAS
    for index in range(40):
        unbounded().check(accept_request({"description": "x" * 60_000, "const": index}))
    assert sum(map(len, unbounded()._entries)) == unbounded()._bytes <= json_text.CACHED_BYTES


def test_a_schema_in_use_is_not_the_one_that_is_forgotten() -> None:
    engine = on_the_loop()
    engine.check(accept_request(COUNTS))
    first = next(iter(engine._entries.values()))
    for index in range(json_text.CACHED_SCHEMAS + 10):
        engine.check(accept_request({"const": index}))
        engine.check(accept_request(COUNTS))
    assert any(entry is first for entry in engine._entries.values())


def test_a_fault_of_ours_is_an_answer_that_names_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = on_the_loop()

    def broken(_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(engine, "_answer", broken)
    answer = engine.check(accept_request({}))
    assert (answer.status, answer.problems[0].message) == ("failed", "the check itself broke: KeyError")


class PanicException(BaseException):
    """As jsonschema-rs raises where its Rust code panics."""


@pytest.mark.parametrize("is_bounded", [True, False])
def test_a_panic_of_jsonschema_rs_is_an_answer(monkeypatch: pytest.MonkeyPatch, is_bounded: bool) -> None:
    engine = Engine(is_bounded=is_bounded)

    def panic(_: object) -> None:
        raise PanicException

    monkeypatch.setattr(engine, "_answer", panic)
    answer = engine.check(accept_request({}))
    assert (answer.status, answer.problems[0].message) == ("failed", "the check itself broke: PanicException")


def test_an_interrupt_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = on_the_loop()

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "_answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.check(accept_request({}))


@pytest.mark.parametrize("error", [MemoryError, RecursionError])
def test_running_out_of_memory_or_stack_is_an_answer_in_the_worker(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def broken(_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(unbounded(), "_answer", broken)
        assert unbounded().check(accept_request({})).status == "failed"


def test_running_out_of_stack_on_the_loop_is_left_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = on_the_loop()

    def broken(_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(engine, "_answer", broken)
    with pytest.raises(TooMuch):
        engine.check(accept_request({}))


@settings(max_examples=effort(80, 1_000), deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_as_schema_and_value_get_an_answer(schema: bytes, value: bytes) -> None:
    unbounded().check(accept_request(schema))
    unbounded().check(report_request(schema, value))
    unbounded().check(report_request(b"{}", value))


def test_a_small_report_that_is_known_takes_a_handful_of_calls() -> None:
    # The time of a check is measured by benchmarks/schemas.py.
    engine, request = on_the_loop(), report_request(COUNTS, {"agent": 1, "total": 2})
    engine.check(request)
    called: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        engine.check(request)
    finally:
        sys.setprofile(None)
    assert 1 <= len(called) <= 40, called


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
    assert message.startswith("is not a regular expression that can be used")


def test_unknown_keywords_are_annotations() -> None:
    unknown = {"type": "string", "x-order": 1, "id": "http://example.com/x", "nullable": True}
    assert refusals(unknown) == []


@table(
    "schema",
    [
        {"pattern": "^(?:\\p{L}\\d?){1,200}$"},
        {"pattern": "(?=a)"},
        {"anyOf": [{"pattern": str(index)} for index in range(INLINE_PATTERNS + 1)]},
        {"description": "x" * INLINE_SCHEMA_BYTES},
        {"type": "whole"},
    ],
)
def test_schemas_that_the_loop_leaves_to_the_worker(schema: object) -> None:
    with pytest.raises(TooMuch):
        accept(text(schema), is_bounded=True)


@table(
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
        ({"properties": {"a": "string"}}, "/properties/a", 'must be object or boolean, got "string"'),
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
    monkeypatch.setattr(validation, "_problems", lambda *_: ())
    assert refusals({"minLength": -1}) == [("", "the value is less than the minimum of 0")]
