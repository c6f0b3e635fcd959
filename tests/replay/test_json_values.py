from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.json_values import Held, at_path, leaves, names, parts_of, value_lines, written
from tests.tables import table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_every_leaf_is_at_its_path(value: Any) -> None:
    for path, leaf in leaves(value, "body"):
        assert (path, leaf) in list(at_path({"body": value}, parts_of(path)))


@given(st.text())
def test_a_written_name_is_one_part_of_a_path(name: str) -> None:
    assert len(parts_of(f"body.{written(name)}")) == 2
    assert list(at_path({"body": {name: 1}}, parts_of(f"body.{written(name)}"))) == [
        (f"body.{written(name)}", 1)
    ]


def test_a_star_stands_for_each_field_and_each_item() -> None:
    value = {"a": [{"n": 1}, {"n": 2}, {"m": 3}], "b": {"n": 4}}
    assert list(at_path(value, parts_of("a.*.n"))) == [("a.0.n", 1), ("a.1.n", 2)]
    assert list(at_path(value, parts_of("*.n"))) == [("b.n", 4)]


def test_a_path_goes_on_through_json_that_stands_in_a_string() -> None:
    value = {"output": msgspec.json.encode({"cents": 12}).decode()}
    assert list(at_path(value, parts_of("output.cents"))) == [("output.cents", 12)]
    assert list(at_path({"output": "{no json"}, parts_of("output.cents"))) == []


@table("path", ["", ".", "a..b", "a.", ".a", 'a."b', 'a."b"c', '"\\x"'])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(MisuseError, match="is not a path"):
        parts_of(path)


def test_the_names_of_fields_come_with_their_paths() -> None:
    assert list(names({"a": [{"b.c": 1}]}, "body")) == [("body.a", "a"), ('body.a.0."b.c"', "b.c")]


def test_each_value_has_a_line_with_its_path_even_an_empty_one() -> None:
    value = {"a": [{"b": 1}, "x\ny"], "c": {}, "d": [], "e": None, "f": {"g": True}}
    assert [*value_lines("", value)] == [
        "a[0].b: 1", "a[1]: x", "a[1]: y", "c: {}", "d: []", "e: null", "f.g: true",
    ]  # fmt: skip


@table("field", ["text", "output", "detail"])
def test_a_value_is_held_by_json_that_stands_in_any_text(field: str) -> None:
    body = {"turn": 17, field: '{"total": 17, "rows": [{"n": 4821}], "ready": true}'}
    assert [len([*Held(value).places(body)]) for value in ("17", "4821", "true", "18")] == [1, 1, 1, 0]
