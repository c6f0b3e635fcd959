"""TOON: the cases of its specification, and a decoder that is not ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from callboard.runtime.outputs.toon import toon
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES

ENDLESS = 1 << 30
CASES = Path(__file__).parents[2] / "data" / "toon"


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


@pytest.mark.parametrize("case", cases())
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
