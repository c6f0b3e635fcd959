"""The kinds of JSON values."""

import dataclasses

import pytest

from callboard.errors import InvalidPrompt
from callboard.runtime.outputs.values import is_plain, json_value, kind_of


@dataclasses.dataclass
class Box:
    label: str


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "nothing"),
        (True, "flag"),
        (3, "number"),
        (0.5, "number"),
        ("", "text"),
        ({}, "mapping"),
        ([], "list"),
        ([1, 2], "list"),
        ([{"a": 1}, {"a": 2}], "table"),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], "table"),
        ([{"a": 1}, {"b": 2}], "list"),
        ([{"a": 1}, {"a": [1]}], "list"),
        ([{}, {}], "list"),
        ([{"a": 1}, 2], "list"),
    ],
)
def test_the_kind_of_a_value(value: object, kind: str) -> None:
    assert kind_of(value) == kind


def test_objects_become_what_json_has_for_them() -> None:
    assert json_value([Box("a"), (1, 2)]) == [{"label": "a"}, [1, 2]]
    with pytest.raises(InvalidPrompt, match="it"):
        json_value({"a": object()})


def test_a_list_is_not_plain() -> None:
    values: list[object] = [None, True, 1, 0.5, "a", [], {}]
    assert [is_plain(one) for one in values] == [True] * 5 + [False] * 2
