"""Large values: the fast look at all parts agrees with the slow one, which names the part that it refuses."""

import gc
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime import sanitize
from callboard.runtime.large_values import (
    LARGE,
    has_exponents,
    is_deeper,
    is_large,
    keys_in,
    read_exponents,
    uncollected,
    weighed,
)
from callboard.runtime.sanitize import MAX_BYTES, MAX_DEPTH, to_json
from tests.tables import table

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.just("\ud800"),
    st.just({1}),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=5), st.integers(0, 3)), inner, max_size=4),
    ),
    max_leaves=20,
)


@example([[]], 2, 0)
@example([[], [[], {}]], 5, 1)
@given(VALUES, st.integers(0, 5), st.integers(0, 200))
def test_the_fast_look_accepts_and_refuses_as_the_slow_one(value: object, depth: int, budget: int) -> None:
    left = weighed(value, depth, budget)
    if left is None:
        return
    if left >= 0:
        assert sanitize._weigh(value, depth, budget + 8) >= 0
    else:
        with pytest.raises(sanitize._Refused):
            sanitize._weigh(value, depth, budget - 8)


@given(VALUES)
def test_most_plain_values_need_the_fast_look_only(value: object) -> None:
    try:
        sanitize._weigh(value, MAX_DEPTH, MAX_BYTES)
    except sanitize._Refused:
        assert weighed(value, MAX_DEPTH, MAX_BYTES) is None
    else:
        left = weighed(value, MAX_DEPTH, MAX_BYTES)
        assert left is not None
        assert left >= 0


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [(float("nan"), r"\$\[3000\]` is nan"), ({1: 2}, r"\$\[3000\]` has the key 1"), ({1}, "is a set")],
)
def test_a_large_value_is_refused_by_its_place(spoilt: object, told: str) -> None:
    with pytest.raises(InvalidPrompt, match=told):
        to_json([0.5] * 3_000 + [spoilt])
    deep: list[object] = []
    for _ in range(MAX_DEPTH):
        deep = [deep]
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        to_json([0] * 3_000 + [deep])


def test_parts_that_a_value_has_many_times_are_bounded_before_they_are_listed() -> None:
    laughs: list[object] = ["ha"] * 10
    for _ in range(30):
        laughs = [laughs] * 10
    with pytest.raises(InvalidPrompt, match="too large"):
        to_json(laughs)


class Array:
    """A value of another library."""

    def __len__(self) -> int:
        return LARGE + 1


class Holder:
    def __init__(self, held: object) -> None:
        self.held = held


def itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


LARGE_ONES = {
    "a list": [0] * (LARGE + 1),
    "a deep one": [[[0] * 50] * 50],
    "a dict": {"a": dict.fromkeys(range(LARGE))},
    "a set": set(range(LARGE + 1)),
    "one that contains itself": itself(),
    "an array": Array(),
    "an object with a list": [Holder([0] * (LARGE + 1))],
    "a generator": [iter(range(3))],
}


@table("name", LARGE_ONES)
def test_a_large_value_is_told_from_others(name: str) -> None:
    assert is_large(LARGE_ONES[name])


@table("value", [1, "a" * 10**6, b"a" * 10**6, [0] * 100, {"a": [1, {"b": 2}]}, Holder([1])])
def test_a_small_one_is_not_large(value: object) -> None:
    assert not is_large(value)


def test_the_collector_is_left_as_it_was() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


TEXTS = st.text(st.sampled_from('a[]{}:,"\\\\é'), max_size=6)
VALUES_OF_JSON_OUTLINE = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def keys(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(keys, value.values()))
    return sum(map(keys, value)) if isinstance(value, list) else 0


@given(VALUES_OF_JSON_OUTLINE, st.sampled_from([None, 1]))
def test_depth_and_keys_are_those_that_a_parser_finds(value: Any, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert keys_in(data) == keys(value)
    for most in range(depth(value) + 2):
        assert is_deeper(data, most) == (depth(value) > most)


@table("data", [b"[", b"]", b"][", b"[[]", b"{}}", b"[" * 500, b"]" * 500 + b"[" * 500])
def test_brackets_that_do_not_match_are_too_deep(data: bytes) -> None:
    assert is_deeper(data, 64)


def test_a_deep_list_among_many_empty_ones_is_found() -> None:
    assert is_deeper(b"[" + b"[]," * 900 + b"[" * 64 + b"]" * 64 + b"]", 64)
    assert not is_deeper(b"[" + b"[]," * 900 + b"[" * 63 + b"]" * 63 + b"]", 64)


def test_texts_of_many_large_exponents_are_told_from_others() -> None:
    assert has_exponents(b"[" + b"1e308," * 1_001 + b"0]")
    assert not has_exponents(b"[" + b"1e308," * 900 + b"0]")
    assert not has_exponents(b"[" + b"1e30," * 5_000 + b"0]")


@pytest.mark.parametrize("text", ['[1e308, null, "null", "\\u006eull"]', "[4.9e-324]", "{}"])
def test_a_text_is_read_as_python_reads_it(text: str) -> None:
    assert read_exponents(text.encode()) == json.loads(text)


@pytest.mark.parametrize("text", ["[1e999]", "[null, -1e999]", "[NaN]", "[Infinity]"])
def test_numbers_beyond_a_float_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        read_exponents(text.encode())
