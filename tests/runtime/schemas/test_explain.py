from tests.runtime.schemas.kit import problems, report
from tests.tables import table

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
