"""TOON: the cases of its specification, and a decoder that is not ours."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.outputs.toon import is_plain, kind_of, toon, with_folded_keys
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES
from tests.tables import table

ENDLESS = 1 << 30
CASES = Path(__file__).parents[2] / "data" / "toon"
KEYS = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "full-name", "x y", ""])
VALUES_folding = st.recursive(
    st.integers(0, 9) | st.just([{"a": {"b": 1}}]),
    lambda inner: st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


def cases() -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in sorted(CASES.glob("*.json"))
        for case in json.loads(path.read_text())["tests"]
    ]


def options_of(case: Any) -> dict[str, Any]:
    """Return the options of a case as `toon` takes them."""
    options = dict(case.get("options", {}))
    depth = options.pop("flattenDepth", ENDLESS)
    return options | {"fold_depth": depth if options.pop("keyFolding", "off") == "safe" else 0}


def test_all_files_of_the_specification_are_here() -> None:
    assert len(list(CASES.glob("*.json"))) == 9
    assert len(cases()) == 153
    assert len([one for one in cases() if options_of(one.values[0])["fold_depth"]]) == 10


@table("case", cases())
def test_a_case_of_the_specification(case: Any) -> None:
    assert toon(case["input"], **options_of(case)) == case["expected"]


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_another_decoder_reads_every_value_back(value: Any) -> None:
    decode = pytest.importorskip("toon").decode
    assert decode(toon(value)) == value


def test_a_text_that_some_readers_take_for_a_comment_is_quoted() -> None:
    assert toon("# no comment") == '"# no comment"'
    assert toon({"a": "#1", "b": ["x #2"]}) == 'a: "#1"\nb[1]: x #2'


def test_a_text_with_delimiters_is_quoted_where_it_must_be() -> None:
    assert toon([{"a": "x,y", "b": "x|y"}]) == '[1]{a,b}:\n  "x,y",x|y'
    assert toon([{"a": "x,y", "b": "x|y"}], delimiter="|") == '[1|]{a|b}:\n  x,y|"x|y"'


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
@given(st.dictionaries(KEYS, VALUES_folding, max_size=4), st.integers(0, 5))
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


@dataclasses.dataclass
class Box:
    label: str


@table(
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


def test_a_list_is_not_plain() -> None:
    values: list[object] = [None, True, 1, 0.5, "a", [], {}]
    assert [is_plain(one) for one in values] == [True] * 5 + [False] * 2
