import json
from decimal import Decimal
from fractions import Fraction

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from callboard.runtime.schemas.compiled import Unfit, compile_keyword, compile_schema
from callboard.runtime.schemas.json_text import MULTIPLE_OF_MIN, parse
from callboard.runtime.schemas.subschema_index import PLACES
from tests.effort import effort
from tests.runtime.schemas.kit import accepted, text
from tests.runtime.schemas.strategies import all_schemas, odd_schemas, values
from tests.tables import table

LOOKS_BACK = ["(?=a)", "(?<=a)b", "(a)\\1"]
TOO_LARGE = ["\\p{L}{1,100}", "((a{30}){30}){30}", "^.{0,1000}a$", "(.{100}){10}"]


@pytest.mark.slow
@settings(max_examples=effort(suite=30, campaign=1_000), deadline=None)
@given(all_schemas, st.lists(values, min_size=1, max_size=8))
def test_its_verdict_is_that_of_jsonschema(root: object, examples: list[object]) -> None:
    oracle = Draft202012Validator(root, registry=Registry())
    validator = accepted(root).validator
    for value in examples:
        assert validator.is_valid(parse(text(value))) == oracle.is_valid(value), json.dumps([root, value])


digits = st.integers(-(10**6), 10**6) | st.sampled_from([2**53, 2**63, 2**64, 2**127])
numbers = st.one_of(
    st.builds(lambda number, exponent: number * 10**exponent, digits, st.integers(0, 2_000)),
    st.builds(lambda number, beside: number + beside, digits, st.integers(-3, 3)),
    st.builds(lambda number, exponent: float(f"{number}e{exponent}"), digits, st.integers(-9, 260)),
)


def _divided(number: float) -> Fraction:
    """Return a number as `multipleOf` takes it: of a fraction its digits, so 19.99 is 1,999 hundredths."""
    return Fraction(number) if number == int(number) else Fraction(Decimal(repr(number)))


@pytest.mark.slow
@settings(max_examples=effort(suite=120, campaign=3_000), deadline=None)
@given(numbers, numbers, st.booleans())
def test_numbers_are_compared_as_they_are_stored_and_fractions_divided_as_decimals(
    value: float, wanted: float, is_multiple: bool
) -> None:
    value = value * wanted if is_multiple and isinstance(value, int) and isinstance(wanted, int) else value
    one, other = Fraction(value), Fraction(wanted)
    expected: list[tuple[dict[str, object], bool]] = [
        ({"minimum": wanted}, one >= other),
        ({"exclusiveMaximum": wanted}, one < other),
        ({"const": wanted}, one == other),
        ({"enum": ["", wanted]}, one == other),
    ]
    if wanted >= MULTIPLE_OF_MIN:
        expected.append(({"multipleOf": wanted}, (_divided(value) / _divided(wanted)).denominator == 1))
    for schema, is_valid in expected:
        assert compile_schema(schema, is_linear=False).is_valid(value) is is_valid, (schema, value)
    assert compile_schema({"uniqueItems": True}, is_linear=False).is_valid([value, wanted]) is (one != other)


@pytest.mark.slow
@settings(max_examples=effort(suite=60, campaign=1_000), deadline=None)
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


@table("pattern", LOOKS_BACK + TOO_LARGE)
def test_an_expression_that_may_take_long_is_left_to_the_worker(pattern: str) -> None:
    with pytest.raises(Unfit):
        compile_schema({"pattern": pattern}, is_linear=True)
    with pytest.raises(Unfit):
        compile_schema({"patternProperties": {pattern: {}}}, is_linear=True)
    compile_schema({"pattern": pattern}, is_linear=False)


@table(
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
    assert not compile_schema({"pattern": pattern}, is_linear=True).is_valid("!")


@table(
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
@table("is_linear", [True, False])
def test_expressions_match_anywhere_as_ecma_262_says(
    pattern: str, text: str, is_there: bool, is_linear: bool
) -> None:
    if is_linear and "Letter" in pattern:
        return
    assert compile_schema({"pattern": pattern}, is_linear=is_linear).is_valid(text) is is_there


@table("pattern", ["[", "(", "*", "a{5,1}", "\\p{Nope}", "\ud800"])
def test_an_expression_that_cannot_be_used_is_unfit(pattern: str) -> None:
    with pytest.raises(Unfit):
        compile_keyword("pattern", pattern)


def test_an_expression_that_backtracks_is_never_cut_short_with_a_wrong_answer() -> None:
    pattern, value = "^(a*)(a*)(a*)(a*)\\1\\2c|^a+$", "a" * 80
    cut_short = jsonschema_rs.Draft202012Validator(
        {"pattern": pattern}, pattern_options=jsonschema_rs.FancyRegexOptions()
    )
    assert not cut_short.is_valid(value), "the default bound has become large enough: make the value longer"
    assert compile_keyword("pattern", pattern).is_valid(value)


def test_patterns_that_hold_python_for_years_are_answered() -> None:
    assert not compile_keyword("pattern", "^(a+)+$").is_valid("a" * 100_000 + "!")
    assert not compile_keyword("pattern", "(a|b)*" * 300 + "c").is_valid("ab" * 50_000)


def test_formats_are_annotations() -> None:
    assert accepted({"format": "date"}).validator.is_valid("no date")


@table(
    ("schema", "value"),
    [
        ({"multipleOf": 0.01}, 19.99),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": MULTIPLE_OF_MIN}, 1e308),
        ({"multipleOf": 3}, 10**4_000 - 1),
        ({"multipleOf": 0.5}, 10**400),
        ({"multipleOf": 0.01}, 10**4_000),
        ({"multipleOf": 0.07}, 7 * 10**4_000),
        ({"enum": [1]}, 1.0),
        ({"const": 10**20}, 1e20),
        ({"const": int(1e25)}, 1e25),
        ({"const": 2**64}, 2.0**64),
        ({"minimum": 2**63 + 1}, 2.0**63 + 2**12),
        ({"type": "integer"}, 1e20),
        ({"maximum": 2**53}, 2.0**53),
        ({"minLength": 2}, "é😀"),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": True}]),
        ({"uniqueItems": False}, [1, 1]),
    ],
)
def test_values_that_the_draft_accepts(schema: object, value: object) -> None:
    assert accepted(schema).validator.is_valid(value)


@table(
    ("schema", "value"),
    [
        ({"enum": [1]}, True),
        ({"const": False}, 0),
        ({"uniqueItems": True}, [{"a": 1.0}, {"a": 1}]),
        ({"maximum": 2**53}, 2**53 + 1),
        ({"const": 2**53}, 2**53 + 1),
        ({"multipleOf": 0.01}, 19.995),
        ({"multipleOf": 0.03}, 10**4_000),
        ({"const": 10**25}, 1e25),
        ({"minimum": 2**63 + 1}, 2.0**63),
        ({"minimum": 2**64 + 1}, 2.0**64),
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
