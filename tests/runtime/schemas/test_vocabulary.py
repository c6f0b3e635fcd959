import pytest

from tests.runtime.schemas.kit import problems


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"required": ["a", "b", "c"]}, {"b": 1}, [("", 'required properties missing: "a", "c"')]),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            [("", 'where "a" is present, "b" must be present too')],
        ),
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
        ({"enum": ["red", 1, None]}, "blue", [("", 'must be one of "red", 1, null, got "blue"')]),
        (
            {"const": {"a": 1}},
            {"a": 2},
            [("", "must be exactly an object with 1 property, got an object with 1 property")],
        ),
        (
            {"uniqueItems": True},
            [1, 2, 1.0],
            [("", "items must all be different, but items 0 and 2 are equal")],
        ),
        ({"multipleOf": 0.01}, 19.995, [("", "must be a multiple of 0.01, got 19.995")]),
    ],
)
def test_our_keywords_say_what_is_wrong(
    schema: object, value: object, expected: list[tuple[str, str]]
) -> None:
    assert problems(schema, value) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"multipleOf": 0.01}, 19.99),
        ({"multipleOf": 0.1}, 0.3),
        ({"multipleOf": 1e-9}, 1e308),
        ({"multipleOf": 3}, 10**4_000 - 1),
        ({"multipleOf": 0.5}, 10**400),
        ({"enum": [1]}, 1.0),
        ({"const": 10**20}, 1e20),
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, {"a": True}]),
        ({"uniqueItems": False}, [1, 1]),
        ({"required": ["a"], "propertyNames": False, "additionalProperties": False}, [1]),
        ({"pattern": "^a", "patternProperties": {"a": False}, "dependentRequired": {"a": ["b"]}}, 1),
    ],
)
def test_our_keywords_accept_what_the_draft_accepts(schema: object, value: object) -> None:
    assert problems(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"enum": [1]}, True), ({"const": False}, 0), ({"uniqueItems": True}, [{"a": 1.0}, {"a": 1}])],
)
def test_equality_is_that_of_json(schema: object, value: object) -> None:
    assert len(problems(schema, value)) == 1
