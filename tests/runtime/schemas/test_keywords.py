import re

import pytest
from referencing import Registry

from callboard.runtime.schemas.subschema_index import DIALECT
from callboard.runtime.schemas.validation import _CHECKER
from tests.runtime.schemas.kit import accepted, problems, report


@pytest.mark.parametrize(
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
    assert problems({"pattern": "^(a+)+$"}, "a" * 200_000 + "!") != []
    assert problems({"additionalProperties": False}, {"x" * 500: 1}) != []
