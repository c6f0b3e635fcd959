"""IntMap is a dict that never changes: compared with a dict, operation by operation."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.intmap import IntMap
from tests.tables import table

KEYS = st.one_of(st.integers(0, 40), st.integers(0, 2_000), st.sampled_from([31, 32, 1023, 1024, 2**40]))
STEPS = st.lists(st.tuples(st.sampled_from(["put", "drop"]), KEYS, st.integers(0, 9)), max_size=60)


def filled(*keys: int) -> IntMap[str]:
    made: IntMap[str] = IntMap()
    for key in keys:
        made = made.put(key, f"v{key}")
    return made


@settings(max_examples=80, deadline=None, derandomize=True)
@given(STEPS)
def test_a_map_has_the_same_items_as_a_dict(steps: list[tuple[str, int, int]]) -> None:
    made: IntMap[int] = IntMap()
    model: dict[int, int] = {}
    for what, key, value in steps:
        if what == "put":
            made = made.put(key, value)
            model[key] = value
        else:
            made = made.drop(key)
            model.pop(key, None)
        assert made.get(key) == model.get(key)
        assert (len(made), made.size) == (len(model), len(model))
    assert list(made.items()) == sorted(model.items())
    assert list(made.values()) == [model[key] for key in sorted(model)]
    assert made.first() == (min(model.items()) if model else None)
    again: IntMap[int] = IntMap()
    for key in sorted(model):
        again = again.put(key, model[key])
    assert (made.root, made.shift, made.size) == (again.root, again.shift, again.size)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(KEYS, unique=True, min_size=1), st.data())
def test_updating_is_putting_one_value_after_the_other_in_place(keys: list[int], data: st.DataObject) -> None:
    made = filled(*keys)
    changed = data.draw(st.lists(st.sampled_from(keys), unique=True))
    expected = made
    for key in changed:
        expected = expected.put(key, "new")
    assert made.update(dict.fromkeys(changed, "new")) == expected
    assert made == filled(*keys)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(KEYS, unique=True), KEYS)
def test_only_existing_keys_can_be_updated(keys: list[int], missing: int) -> None:
    made = filled(*[key for key in keys if key != missing])
    for key in (missing, -1):
        with pytest.raises(KeyError):
            made.update({key: "new"})


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 9), max_size=70))
def test_appending_is_putting_behind_the_last(values: list[int]) -> None:
    made: IntMap[int] = IntMap()
    for value in values:
        made = made.append(value)
    assert list(made.items()) == list(enumerate(values))
    assert made.size == len(values)


def test_a_long_conversation_is_appended_to_over_every_edge_of_a_level() -> None:
    made: IntMap[int] = IntMap()
    put: IntMap[int] = IntMap()
    for value in range(1, 1_100):
        made, put = made.append(value), put.put(value - 1, value)
        assert made.last() == value
        assert made.shift == put.shift
    assert made.root == put.root
    assert list(made.values()) == list(range(1, 1_100))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(STEPS)
def test_old_versions_stay_as_they_were(steps: list[tuple[str, int, int]]) -> None:
    made: IntMap[int] = IntMap()
    versions = [(made, list(made.items()))]
    for what, key, value in steps:
        made = made.put(key, value) if what == "put" else made.drop(key)
        versions.append((made, list(made.items())))
    assert all(list(version.items()) == content for version, content in versions)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(KEYS, unique=True), st.randoms(use_true_random=False))
def test_equality_does_not_depend_on_the_way_there(keys: list[int], chance: random.Random) -> None:
    shuffled = list(keys)
    chance.shuffle(shuffled)
    detour = filled(*shuffled, 7_000_000).drop(7_000_000)
    assert detour == filled(*keys) or 7_000_000 in keys
    assert filled(*keys).put(3, "other") != filled(*keys).put(3, "another")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(KEYS, unique=True), KEYS)
def test_the_last_value_until_a_place_is_found_without_looking_at_all(keys: list[int], place: int) -> None:
    made: IntMap[int] = IntMap()
    for key in keys:
        made = made.put(key, key)
    looks: list[int] = []

    def is_past(value: int) -> bool:
        looks.append(value)
        return value > place

    until = [key for key in keys if key <= place]
    assert made.last_until(is_past) == (max(until) if until else None)
    assert len(looks) <= 33 * (made.shift // 5 + 1)


def test_an_empty_map_is_false_and_has_no_items() -> None:
    assert not IntMap()
    assert IntMap().get(0) is None
    assert IntMap().first() is None
    assert IntMap().drop(3) == IntMap()


@pytest.mark.parametrize("key", [-1, -32, -(2**40)])
def test_a_key_below_zero_is_not_there_and_cannot_be_put(key: int) -> None:
    made = filled(*range(40))
    assert made.get(key) is None
    assert made.drop(key) is made
    with pytest.raises(ValueError, match=f"under {key}"):
        made.put(key, "x")


def test_none_cannot_be_put_since_it_means_absent() -> None:
    with pytest.raises(ValueError, match="not None"):
        IntMap[None]().put(1, None)


def test_keys_beyond_the_largest_are_absent_and_do_not_wrap() -> None:
    made = filled(1)
    assert [made.get(1 + 32**depth) for depth in range(1, 9)] == [None] * 8


@table("size", [1, 2, 3, 31, 32, 33, 34, 1_025])
def test_a_map_without_its_last_key_is_the_one_before_it(size: int) -> None:
    made, before = filled(*range(size)).drop(size - 1), filled(*range(size - 1))
    assert (made.root, made.shift, made.size) == (before.root, before.shift, before.size)
    assert filled(*range(size)).drop(0) == filled(*range(1, size))


def test_dropped_keys_leave_no_empty_nodes() -> None:
    made = filled(*range(5_000))
    for key in range(4_999):
        made = made.drop(key)
    assert _nodes(made) <= 4
    assert list(made.items()) == [(4_999, "v4999")]
    assert _nodes(made.drop(4_999)) == 0


def _nodes(made: IntMap[str]) -> int:
    def count(node: object) -> int:
        return 1 + sum(map(count, node)) if isinstance(node, tuple) and node else 0

    return count(made.root)


def test_repr_shows_the_items() -> None:
    assert repr(filled(2, 1)) == "IntMap({1: 'v1', 2: 'v2'})"


def test_it_is_compared_by_content_and_not_hashable() -> None:
    other: object = {1: "v1"}
    assert filled(1) != other
    with pytest.raises(TypeError, match="unhashable"):
        hash(filled(1))
