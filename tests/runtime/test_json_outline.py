"""The outline of JSON texts against a parser."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.json_outline import has_exponents, is_deeper, keys_in, read_exponents

TEXTS = st.text(st.sampled_from('a[]{}:,"\\\\é'), max_size=6)
VALUES = st.recursive(
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


@given(VALUES, st.sampled_from([None, 1]))
def test_depth_and_keys_are_those_that_a_parser_finds(value: Any, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=False, indent=indent).encode()
    assert keys_in(data) == keys(value)
    for most in range(depth(value) + 2):
        assert is_deeper(data, most) == (depth(value) > most)


@pytest.mark.parametrize("data", [b"[", b"]", b"][", b"[[]", b"{}}", b"[" * 500, b"]" * 500 + b"[" * 500])
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
