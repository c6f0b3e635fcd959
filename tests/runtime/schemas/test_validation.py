import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from referencing import Registry

from callboard.runtime.schemas import validation
from callboard.runtime.schemas.json_text import parse
from callboard.runtime.schemas.subschema_index import DIALECT
from callboard.runtime.schemas.validation import _CHECKER, report_problems
from tests.effort import effort
from tests.runtime.schemas.kit import accepted, problems, report, text
from tests.runtime.schemas.strategies import all_schemas, values
from tests.tables import table


@pytest.mark.slow
@settings(max_examples=effort(suite=20, campaign=1_000), deadline=None)
@given(all_schemas, st.lists(values, min_size=1, max_size=8))
def test_jsonschema_finds_words_exactly_where_jsonschema_rs_finds_a_value_invalid(
    root: object, examples: list[object]
) -> None:
    ready = accepted(root)
    if ready.worded is None:
        return
    for value in examples:
        found = validation._problems(
            _CHECKER(validation._quiet(ready.worded, "one"), registry=Registry()), value
        )
        assert (found == ()) == ready.validator.is_valid(parse(text(value))), json.dumps([root, value])


def test_data_keeps_what_looks_like_a_dialect() -> None:
    schema = {"const": {"$schema": DIALECT}}
    assert problems(schema, {"$schema": DIALECT}) == []
    assert problems(schema, {}) == [("", "must be exactly an object with 1 property, got {}")]


@table(
    ("schema", "value", "expected"),
    [
        ({"properties": {"a": False}}, {"a": 1}, ("/a", "nothing is allowed here, got 1")),
        ({"items": False}, [1], ("", "must have at most 0 items, got 1")),
        ({"additionalProperties": False}, {"a": 1}, ("", 'unknown property "a": none is allowed')),
        (
            {"properties": {"a": {"$ref": "#/$defs/no"}}, "$defs": {"no": False}},
            {"a": 1},
            ("/a", "nothing is allowed here, got 1"),
        ),
        ({"prefixItems": [True, False]}, [1, 2], ("/1", "nothing is allowed here, got 2")),
    ],
)
def test_false_says_where_it_is(schema: object, value: object, expected: tuple[str, str]) -> None:
    assert problems(schema, value) == [expected]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"a": 1, "b": 1},
            [("", "Unevaluated properties are not allowed ('b' was unexpected)")],
        ),
        (
            {"prefixItems": [{}], "unevaluatedItems": False},
            [1, 2],
            [("", "Unevaluated items are not allowed (1 item)")],
        ),
        (
            {"properties": {"a": {"type": "integer"}}, "unevaluatedProperties": False, "required": ["c"]},
            {"a": "x" * 5_000},
            [("", '"c" is a required property'), ("/a", 'the value is not of type "integer"')],
        ),
    ],
)
def test_schemas_with_unevaluated_parts_are_worded_by_jsonschema_rs(
    schema: object, value: object, expected: list[tuple[str, str]]
) -> None:
    assert sorted(problems(schema, value)) == expected


def test_a_report_for_which_jsonschema_has_no_words_gets_those_of_jsonschema_rs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ready = accepted({"items": {"type": "integer"}})
    monkeypatch.setattr(validation, "_problems", lambda *_: ())
    [found] = report_problems(ready.validator, ready.worded, ["x"])
    assert (found.path, found.message) == ("/0", 'the value is not of type "integer"')


def test_numbers_beyond_doubles_get_words_as_well() -> None:
    assert problems({"multipleOf": 0.5}, 10**400) == []
    assert problems({"multipleOf": 7}, 10**400) != []
    assert problems({"maximum": 1.5}, 10**400) == [("", "must be at most 1.5, got a very large integer")]


@pytest.mark.parametrize("value", [10**400, 10**4_000 + 1, -(10**4_000)])
def test_a_very_large_number_that_is_no_multiple_is_named(value: int) -> None:
    expected = "must be a multiple of 0.03, got a very large integer"
    assert problems({"items": {"multipleOf": 0.03}}, [value]) == [("/0", expected)]


def test_a_multiple_in_decimals_is_not_named_beside_other_problems() -> None:
    schema = {"multipleOf": 0.01, "maximum": 1}
    assert problems(schema, 19.99) == [("", "must be at most 1, got 19.99")]


def test_ten_problems_of_a_value_of_many_steps_are_told() -> None:
    found = problems({"items": {"type": "string"}}, [1] * 200_000)
    assert found[:9] == [(f"/{index}", "must be string, got 1") for index in range(9)]
    assert found[9:] == [("", "there are more problems than these: fix these first")]


def test_a_reference_leads_to_the_part_of_its_own_base() -> None:
    schema = {
        "$defs": {
            "a": {
                "$id": "http://example.com/a",
                "properties": {"k": {"$ref": "#/$defs/z"}},
                "$defs": {"z": {"type": ["string", "null"], "required": ["p", "q"]}},
            },
            "z": {"type": "integer", "required": ["other"]},
        },
        "properties": {"p": {"$ref": "http://example.com/a"}},
    }
    assert problems(schema, {"p": {"k": {"p": 1}}}) == [
        ("/p/k", "must be string or null, got an object with 1 property"),
        ("/p/k", 'required property missing: "q"'),
    ]


def test_a_large_value_is_not_copied_into_every_error() -> None:
    big = {"names": ["n" * 200] * 50}
    schema = {"items": {"anyOf": [{"type": "integer"}, {"properties": {"names": {"maxItems": 1}}}]}}
    found = problems(schema, [big] * 90)
    assert found[0] == ("/0/names", "must have at most 1 item, got 50")


@table(
    ("schema", "value", "expected"),
    [
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "z": 1, "y": 1},
            [("", 'unknown properties "z", "y": allowed are "a"')],
        ),
        ({"additionalProperties": False}, {"x": 1}, [("", 'unknown property "x": none is allowed')]),
        ({"additionalProperties": {"type": "null"}}, {"x": 1}, [("/x", "must be null, got 1")]),
        (
            {"patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False},
            {"n_a": "x", "n_b": 1, "m": 1},
            [("", 'unknown property "m": none is allowed'), ("/n_a", 'must be number, got "x"')],
        ),
        (
            {"propertyNames": {"pattern": "^[a-z]+$"}},
            {"ok": 1, "Bad": 1},
            [
                (
                    "",
                    'the property name "Bad" is not allowed: '
                    'it must match the regular expression "^[a-z]+$", got "Bad"',
                )
            ],
        ),
        (
            {"uniqueItems": True},
            [1, 2, 1.0],
            [("", "items must all be different, but items 0 and 2 are equal")],
        ),
    ],
)
def test_our_keywords_name_the_problem(
    schema: object, value: object, expected: list[tuple[str, str]]
) -> None:
    assert problems(schema, value) == expected


@pytest.mark.parametrize("value", [[1], "b", 1, None])
def test_our_keywords_say_nothing_of_other_kinds_of_value(value: object) -> None:
    schema = {
        "patternProperties": {"a": False},
        "additionalProperties": False,
        "propertyNames": False,
        "pattern": "b",
        "uniqueItems": True,
    }
    assert list(_CHECKER(schema, registry=Registry()).iter_errors(value)) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^x"},
        {"patternProperties": {"^x": False}},
        {"patternProperties": {"^x": {}}, "additionalProperties": False},
        {"patternProperties": {"^x": {}}, "unevaluatedProperties": False},
        {"allOf": [{"$schema": DIALECT, "pattern": "^x"}], "maxItems": 0},
        {"$schema": DIALECT, "items": {"$ref": "#"}, "pattern": "^x"},
        {"propertyNames": {"pattern": "^x"}},
    ],
)
def test_no_keyword_reaches_pythons_re(monkeypatch: pytest.MonkeyPatch, schema: object) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("Python's re was asked to search")

    accepted(schema)
    with monkeypatch.context() as patch:
        patch.setattr(re, "search", refuse)
        for value in ({"a": 1, "xa": 2}, ["a", "x"], "a"):
            report(schema, value)
        assert report(schema, {"a": 1, "xa": 2, "y": ["a"]}).status != "failed"


def test_a_long_text_is_searched_as_well() -> None:
    long = "|".join(f"^word{index}$" for index in range(40))
    [(_, message)] = problems({"pattern": long}, "other")
    assert message.startswith('must match the regular expression "^word0$|')
    assert problems({"patternProperties": {long: False}}, {"word1": 1})[0][0] == "/word1"
    assert problems({"pattern": "^(a+)+$"}, "a" * 200_000 + "!") != []
    assert problems({"additionalProperties": False}, {"x" * 500: 1}) != []


PETS = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
            "required": ["kind", "lives"],
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "dog"}, "legs": {"type": "integer"}},
            "required": ["kind", "legs"],
        },
    ]
}


@table(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "x", 'must be integer, got "x"'),
        ({"type": ["integer", "null"]}, 1.5, "must be integer or null, got 1.5"),
        ({"minimum": 0}, -1, "must be at least 0, got -1"),
        ({"maximum": 10}, 11, "must be at most 10, got 11"),
        ({"exclusiveMinimum": 0}, 0, "must be above 0, got 0"),
        ({"exclusiveMaximum": 0}, 0, "must be below 0, got 0"),
        ({"multipleOf": 0.01}, 19.995, "must be a multiple of 0.01, got 19.995"),
        ({"enum": ["red", 1, None]}, "blue", 'must be one of "red", 1, null, got "blue"'),
        (
            {"const": {"a": 1}},
            {"a": 2},
            "must be exactly an object with 1 property, got an object with 1 property",
        ),
        ({"required": ["a", "b", "c"]}, {"b": 1}, 'required properties missing: "a", "c"'),
        (
            {"dependentRequired": {"a": ["b"], "c": ["d"]}},
            {"a": 1, "c": 1},
            'where "a" is present, "b" must be present too; where "c" is present, "d" must be present too',
        ),
        ({"minLength": 3}, "ab", "must have at least 3 characters, got 2"),
        ({"maxLength": 1}, "ab", "must have at most 1 character, got 2"),
        ({"minItems": 1}, [], "must have at least 1 item, got 0"),
        ({"maxItems": 2}, [1, 2, 3], "must have at most 2 items, got 3"),
        ({"minProperties": 2}, {}, "must have at least 2 properties, got 0"),
        ({"maxProperties": 0}, {"a": 1}, "must have at most 0 properties, got 1"),
        ({"prefixItems": [{}], "items": False}, [1, 2], "must have at most 1 item, got 2"),
        (
            {"contains": {"type": "null"}},
            [1],
            "must have an item that matches the schema under contains, none does",
        ),
        (
            {"contains": {"type": "null"}, "minContains": 2},
            [None],
            "too few items match the schema under contains, 2 must",
        ),
        (
            {"contains": {"type": "null"}, "maxContains": 1},
            [None] * 2,
            "too many items match the schema under contains, at most 1 may",
        ),
        ({"not": {"type": "string"}}, "x", 'must not match the schema under not, but "x" does'),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 0}]},
            1,
            "must match only one alternative of oneOf, 1 matches more",
        ),
        ({"properties": {"a": False}, "not": {}}, 1, "nothing is allowed here, got 1"),
    ],
)
def test_every_keyword_has_its_sentence(schema: object, value: object, message: str) -> None:
    assert problems(schema, value) == [("", message)]


def test_paths_are_json_pointers_into_the_value() -> None:
    schema = {"properties": {"items": {"items": {"properties": {"a/b": {"type": "string"}}}}}}
    assert [path for path, _ in problems(schema, {"items": [{}, {"a/b": 1}]})] == ["/items/1/a~1b"]


def test_problems_near_the_root_come_first() -> None:
    schema = {
        "properties": {"a": {"properties": {"b": {"type": "string"}}, "required": ["c"]}},
        "required": ["z"],
    }
    assert [path for path, _ in problems(schema, {"a": {"b": 1}})] == ["", "/a", "/a/b"]


def test_a_nullable_part_is_explained_as_if_it_were_not_nullable() -> None:
    schema = {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "null"}]}
    assert problems(schema, {"a": "x"}) == [("/a", 'must be integer, got "x"')]


def test_alternatives_of_the_wrong_type_are_all_named() -> None:
    schema = {"anyOf": [{"type": "integer"}, {"type": "null"}, {"enum": ["a"], "type": "string"}]}
    assert problems(schema, [1]) == [("", "must be integer or null or string, got an array of 1 item")]


def test_the_alternative_whose_tag_fits_is_explained() -> None:
    assert problems(PETS, {"kind": "dog", "legs": "four"}) == [
        ("/legs", 'must be integer, got "four" (closest of the 2 alternatives of oneOf)')
    ]


def test_an_unknown_tag_is_answered_with_all_tags() -> None:
    assert problems(PETS, {"kind": "cow", "legs": 4}) == [("/kind", 'must be one of "cat", "dog", got "cow"')]


def test_without_a_tag_the_alternative_with_the_fewest_errors_is_explained() -> None:
    schema = {"anyOf": [{"required": ["a"], "minProperties": 3}, {"required": ["b"]}]}
    assert problems(schema, {}) == [
        ("", 'required property missing: "b" (closest of the 2 alternatives of anyOf)')
    ]


def test_nested_alternatives_are_followed_to_the_bottom() -> None:
    inner = {"anyOf": [{"type": "object", "required": ["x"]}, {"type": "object", "required": ["x", "y"]}]}
    schema = {"properties": {"a": {"anyOf": [inner, {"type": "array"}]}}}
    [(path, message)] = problems(schema, {"a": {}})
    assert path == "/a"
    assert message == 'required property missing: "x" (closest of the 2 alternatives of anyOf)'


def test_more_than_ten_problems_are_cut_and_it_is_said() -> None:
    found = problems({"items": {"type": "string"}}, list(range(500)))
    assert len(found) == 10
    assert found[-1] == ("", "there are more problems than these: fix these first")


def test_equal_problems_are_told_once() -> None:
    schema = {"allOf": [{"type": "string"}, {"type": "string"}]}
    assert len(problems(schema, 1)) == 1


def test_megabytes_are_never_echoed() -> None:
    schema = {"additionalProperties": False, "propertyNames": {"maxLength": 5}, "required": ["k" * 5_000]}
    answer = report(schema, {"x" * 500_000: ["y" * 400_000]})
    assert answer.status == "invalid"
    assert sum(len(each.path) + len(each.message) for each in answer.problems) < 2_000


def test_the_same_report_gets_the_same_problems_in_the_same_order() -> None:
    schema = {"properties": {name: {"type": "integer"} for name in "hgfedcba"}, "additionalProperties": False}
    value = dict.fromkeys("azbycxdwev", "x")
    assert len({str(report(schema, value)) for _ in range(5)}) == 1
    assert [path for path, _ in problems(schema, value)] == ["", "/e", "/d", "/c", "/b", "/a"]
