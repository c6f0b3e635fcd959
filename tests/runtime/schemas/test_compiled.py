import json
import time

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from callboard.runtime.schemas.compiled import UNKNOWN, Fault, Unfit, compile_schema, faults_of
from callboard.runtime.schemas.json_text import parse
from callboard.runtime.schemas.limits import MULTIPLE_OF_MIN
from callboard.runtime.schemas.subschema_index import PLACES
from tests.runtime.schemas.kit import accepted, problems, text
from tests.runtime.schemas.strategies import all_schemas, odd_schemas, values


def expression(pattern: str) -> jsonschema_rs.Draft202012Validator:
    return compile_schema({"pattern": pattern}, is_linear=False)


LOOKS_BACK = ["(?=a)", "(?<=a)b", "(a)\\1"]
TOO_LARGE = ["\\p{L}{1,100}", "((a{30}){30}){30}", "^.{0,1000}$", "(.{100}){10}"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(all_schemas, st.lists(values, min_size=1, max_size=8))
def test_its_verdict_is_that_of_jsonschema(root: object, examples: list[object]) -> None:
    oracle = Draft202012Validator(root, registry=Registry())
    validator = accepted(root).validator
    for value in examples:
        assert validator.is_valid(parse(text(value))) == oracle.is_valid(value), json.dumps([root, value])


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(odd_schemas)
def test_it_refuses_the_schemas_that_the_meta_schema_refuses(schema: dict[str, object]) -> None:
    try:
        Draft202012Validator.check_schema(schema)
        is_good = True
    except SchemaError:
        is_good = False
    try:
        compile_schema(schema, is_linear=False)
    except Unfit:
        assert not is_good, schema
    else:
        assert is_good, schema


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x", "file:///etc/hostname", "item.json"])
def test_an_address_is_never_fetched(address: str) -> None:
    for keyword in ("$ref", "$dynamicRef"):
        with pytest.raises(Unfit, match="retrieving it failed"):
            compile_schema({keyword: address}, is_linear=False)


@pytest.mark.parametrize("pattern", LOOKS_BACK + TOO_LARGE)
def test_an_expression_that_may_take_long_is_left_to_the_worker(pattern: str) -> None:
    with pytest.raises(Unfit):
        compile_schema({"pattern": pattern}, is_linear=True)
    with pytest.raises(Unfit):
        compile_schema({"patternProperties": {pattern: {}}}, is_linear=True)
    compile_schema({"pattern": pattern}, is_linear=False)


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]{1,64}$",
        "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        "^[^@\\s]+@[^@\\s]+\\.[a-z]{2,}$",
        "^(https?://)?[\\w.-]+(/.*)?$",
        "^(a+)+$",
    ],
)
def test_everyday_expressions_are_for_the_loop(pattern: str) -> None:
    compile_schema({"pattern": pattern}, is_linear=True)


@pytest.mark.parametrize(
    ("pattern", "text", "is_there"),
    [
        ("b", "abc", True),
        ("^b", "abc", False),
        ("^[A-Z]{2}-\\d+$", "AB-12", True),
        ("^\\d$", "\u0661", False),
        ("^a$", "a\n", False),
        ("^\\u0061\\u00e9$", "aé", True),
        ("\\\\u0061", "\\u0061", True),
        ("^\\p{Letter}+$", "Ünï", True),
        ("^.$", "\U0001f600", True),
        ("^\\s$", "\u00a0", True),
        ("^\\cA$", "\x01", True),
        ("", "", True),
    ],
)
@pytest.mark.parametrize("is_linear", [True, False])
def test_expressions_match_anywhere_as_ecma_262_says(
    pattern: str, text: str, is_there: bool, is_linear: bool
) -> None:
    if is_linear and "Letter" in pattern:
        return
    assert compile_schema({"pattern": pattern}, is_linear=is_linear).is_valid(text) is is_there


@pytest.mark.parametrize("pattern", ["[", "(", "*", "a{5,1}", "\\p{Nope}", "\\p{L}{1,1000}", "\ud800"])
def test_an_expression_that_cannot_be_used_is_unfit(pattern: str) -> None:
    with pytest.raises(Unfit):
        expression(pattern)


def test_an_expression_that_backtracks_is_never_cut_short_with_a_wrong_answer() -> None:
    pattern, value = "^(a*)(a*)(a*)(a*)\\1\\2c|^a+$", "a" * 80
    cut_short = jsonschema_rs.Draft202012Validator(
        {"pattern": pattern}, pattern_options=jsonschema_rs.FancyRegexOptions()
    )
    assert not cut_short.is_valid(value), "the default bound has become large enough: make the value longer"
    assert expression(pattern).is_valid(value)


def test_patterns_that_hold_python_for_minutes_take_no_time() -> None:
    started = time.process_time()
    assert not expression("^(a+)+$").is_valid("a" * 100_000 + "!")
    assert not expression("(a|b)*" * 300 + "c").is_valid("ab" * 50_000)
    assert time.process_time() - started < 0.5


def test_formats_are_annotations() -> None:
    assert accepted({"format": "date"}).validator.is_valid("no date")


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.01}, 19.99),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": MULTIPLE_OF_MIN}, 1e308),
        ({"multipleOf": 3}, 10**4_000 - 1),
        ({"multipleOf": 0.5}, 10**400),
        ({"enum": [1]}, 1.0),
        ({"const": 10**20}, 1e20),
        ({"type": "integer"}, 1e20),
        ({"maximum": 2**53}, 2.0**53),
        ({"minLength": 2}, "é😀"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": True}]),
        ({"uniqueItems": False}, [1, 1]),
    ],
)
def test_values_that_the_draft_accepts(schema: object, value: object) -> None:
    assert accepted(schema).validator.is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [1]}, True),
        ({"const": False}, 0),
        ({"uniqueItems": True}, [{"a": 1.0}, {"a": 1}]),
        ({"maximum": 2**53}, 2**53 + 1),
        ({"const": 2**53}, 2**53 + 1),
        ({"multipleOf": 0.01}, 19.995),
        ({"maxLength": 2}, "e\u0301a"),
    ],
)
def test_values_that_the_draft_does_not_accept(schema: object, value: object) -> None:
    assert not accepted(schema).validator.is_valid(value)


def test_its_places_of_subschemas_are_those_that_are_walked() -> None:
    for keyword, place in PLACES.items():
        held = {"one": {"type": 1}, "list": [{"type": 1}], "map": {"a": {"type": 1}}}[place]
        with pytest.raises(Unfit):
            compile_schema({keyword: held}, is_linear=False)


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
