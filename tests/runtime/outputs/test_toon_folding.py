"""Folded keys of TOON: lossless for a reader that expands paths."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.outputs.toon_folding import with_folded_keys
from tests.effort import effort

KEYS = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "full-name", "x y", ""])
VALUES = st.recursive(
    st.integers(0, 9) | st.just([{"a": {"b": 1}}]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


def expanded(value: Any, original: Any) -> Any:
    """Expand each folded key. original: tells which keys had their dots before."""
    if not isinstance(value, dict):
        return value
    found = {}
    for key, part in value.items():
        if key in original:
            found[key] = expanded(part, original[key])
            continue
        first, _, rest = key.partition(".")
        assert first not in value, "a folded key has a place of its own"
        found[first] = expanded({rest: part}, original[first])
    return found


@settings(max_examples=effort(80, 5_000))
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.integers(0, 5))
def test_folded_keys_expand_to_the_same_value(value: dict[str, Any], depth: int) -> None:
    folded = with_folded_keys(value, depth)
    assert expanded(folded, value) == value


def test_a_depth_below_two_and_values_without_chains_change_nothing() -> None:
    chain = {"a": {"b": {"c": 1}}}
    for depth in (0, 1):
        assert with_folded_keys(chain, depth) == chain
    others: list[Any] = [[chain], 1, "x", None, {"a": [chain]}, {"a": {}}]
    for value in others:
        assert with_folded_keys(value, 9) == value


def test_a_folded_key_never_meets_a_key_of_the_root() -> None:
    value: dict[str, Any] = {"a": {"b": {"c": 1}}, "a.b": 2, "a.b.c": 3}
    assert with_folded_keys(value, 2) == value
    assert with_folded_keys(value, 3) == value
