"""TOON: the cases of its specification, and a decoder that is not ours."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from callboard.runtime.outputs.toon import toon
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES

CASES = Path(__file__).parents[2] / "data" / "toon"


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.json")):
        for case in json.loads(path.read_text())["tests"]:
            options = case.get("options", {})
            if options.get("keyFolding") != "safe":  # which the specification leaves to the encoder
                found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    return found


def test_all_files_of_the_specification_are_here() -> None:
    assert len(list(CASES.glob("*.json"))) == 9
    assert len(cases()) == 142


@pytest.mark.parametrize("case", cases())
def test_a_case_of_the_specification(case: Any) -> None:
    options = {
        name: case["options"][name] for name in ("delimiter", "indent") if name in case.get("options", {})
    }
    assert toon(case["input"], **options) == case["expected"]


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_another_decoder_reads_every_value_back(value: Any) -> None:
    decode = pytest.importorskip("toon").decode
    assert decode(toon(value)) == value


def test_a_text_with_delimiters_is_quoted_where_it_must_be() -> None:
    assert toon([{"a": "x,y", "b": "x|y"}]) == '[1]{a,b}:\n  "x,y",x|y'
    assert toon([{"a": "x,y", "b": "x|y"}], delimiter="|") == '[1|]{a|b}:\n  x,y|"x|y"'
