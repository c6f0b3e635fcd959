"""Keys of the shared state: which first values and updates fit which reducer."""

import msgspec
from hypothesis import given

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.shared_state import (
    Reducer,
    StateKey,
    integer_of,
    items_of,
    type_of,
    why_refused,
    why_unusable,
)
from tests.strategies import json_values
from tests.tables import table


def raw(value: object) -> Json:
    return Json(msgspec.json.encode(value))


@table(
    ("reducer", "first", "update", "words"),
    [
        ("replace", "a", "b", ""),
        ("replace", "a", 1, "it holds a text, and this is a number"),
        ("replace", 1, 1.5, ""),
        ("replace", {"a": 1}, [1], "it holds an object, and this is a list"),
        ("replace", True, False, ""),
        ("replace", True, None, "it holds a flag, and this is null"),
        ("replace", None, {"any": "thing"}, ""),
        ("append", [], None, ""),
        ("add", 0, 5, ""),
        ("add", 0, -5, ""),
        ("add", 0, 1.5, "it adds whole numbers"),
        ("add", 0, True, "it adds whole numbers"),
        ("add", 0, "1", "it adds whole numbers"),
        ("add", 0, 2**53, "it adds whole numbers"),
        ("add", 0, 1e400, "it adds whole numbers"),
    ],
)
def test_an_update_fits_its_reducer_and_the_type_of_the_first_value(
    reducer: Reducer, first: object, update: object, words: str
) -> None:
    why = why_refused(StateKey("k", reducer, raw(first)), raw(update))
    assert why.startswith(words)
    assert bool(why) == bool(words)


def test_a_key_that_adds_begins_with_a_number_and_one_that_appends_with_a_list() -> None:
    assert why_unusable(StateKey("k", "add", raw("1"))) == (
        "a key that adds begins with a whole number below 2**53"
    )
    assert why_unusable(StateKey("k", "append", raw({}))) == "a key that appends begins with a list"
    assert why_unusable(StateKey("k", "add", raw(3))) == ""
    assert why_unusable(StateKey("k", "append", raw([1]))) == ""
    assert why_unusable(StateKey("k", "replace", raw({}))) == ""


@given(json_values)
def test_every_json_value_has_a_type_and_is_a_list_or_a_number_or_neither(value: object) -> None:
    given_ = raw(value)
    assert (items_of(given_) is not None) == isinstance(value, list)
    assert (type_of(given_) == "a list") == isinstance(value, list)
    is_small_int = type(value) is int and -(2**53) < value < 2**53
    assert (integer_of(given_) is not None) == is_small_int
