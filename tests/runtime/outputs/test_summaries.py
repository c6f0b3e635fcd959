"""Summaries by rule."""

from typing import Any

import pytest
from hypothesis import given, settings

from callboard.runtime.outputs.summaries import size_of, summary_of
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES


@pytest.mark.parametrize(
    ("value", "summary", "size"),
    [
        (None, "no result", "empty"),
        (True, "true", "1 value"),
        (3.5, "3.5", "1 value"),
        ("short", "short", "5 characters, 1 line"),
        ("one\ntwo", "7 characters, 2 lines: one two", "7 characters, 2 lines"),
        ([], "an empty list", "0 items"),
        ([1, [2], {"a": 1}], "3 items: 1, (1 item), (1 key)", "3 items"),
        (list(range(9)), "9 items: 0, 1, 2, 3, 4, ...", "9 items"),
        ({}, "no keys", "0 keys"),
        ({"a": None, "b": [1]}, "2 keys: a=null, b=(1 item)", "2 keys"),
        ([{"id": 1, "name": "Ada"}], "1 row of id, name: 1, Ada", "1 row, 2 columns"),
    ],
)
def test_a_value_has_a_summary_and_a_size(value: object, summary: str, size: str) -> None:
    assert summary_of(value) == summary
    assert size_of(value) == size


def test_a_long_table_shows_its_first_rows_and_columns() -> None:
    rows = [{f"c{place}": place * number for place in range(20)} for number in range(10_000)]
    summary = summary_of(rows)
    assert summary.startswith("10,000 rows of c0, c1")
    assert "c11, ...: 0, 0" in summary
    assert summary.endswith("0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ...")


@settings(max_examples=effort(40, 5_000))
@given(VALUES)
def test_a_summary_is_pure_bounded_and_on_one_line_inside(value: Any) -> None:
    summary = summary_of(value)
    assert summary == summary_of(value)
    assert len(summary) < 2_500
    assert "\n" not in summary


def test_a_text_of_ten_megabytes_is_summed_up_by_its_beginning() -> None:
    summary = summary_of("word " * 2_000_000)
    assert summary.startswith("10,000,000 characters, 1 line: word word")
    assert len(summary) < 300
