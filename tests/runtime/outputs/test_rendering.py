"""The text of an output that a model reads."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.runtime.outputs.rendering import SUMMARY_CHARS_MAX, Shown, rendered, size_of, summary_of
from callboard.runtime.outputs.tool_output import Encoding, OutputError, ResponseFormat
from tests.effort import effort
from tests.runtime.outputs.json_values import VALUES
from tests.tables import table

ROWS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Linus"}]
TABLE = Shown("search", ROWS, call_id="toolu_1", copied={"source": "crm"})
FAILED = Shown("search", None, error=OutputError("quota", "Try tomorrow."), call_id="toolu_1")
FORMATS = get_args(ResponseFormat)
ENCODINGS = get_args(Encoding)


def text(shown: Shown, form: ResponseFormat, encoding: Encoding = "json", **options: bool) -> str:
    return rendered(shown, form, encoding, **options).text


def test_the_four_formats_of_a_table() -> None:
    concise = "[search] 2 rows of id, name: 1, Ada; 2, Linus"
    standard = f"{concise}\ntype: table\nstatus: ok\nsize: 2 rows, 2 columns"
    raw = '[{"id":1,"name":"Ada"},{"id":2,"name":"Linus"}]'
    assert text(TABLE, "concise") == concise
    assert text(TABLE, "standard") == standard
    assert text(TABLE, "detailed") == f'{standard}\ncall: toolu_1\nsource: "crm"\nresult:\n{raw}'
    assert text(TABLE, "raw") == raw


def test_the_four_formats_of_an_error() -> None:
    concise = "[search] error quota: Try tomorrow."
    standard = f"{concise}\ntype: error\nstatus: error\nsize: 13 characters, 1 line"
    assert text(FAILED, "concise") == concise
    assert text(FAILED, "standard") == standard
    assert text(FAILED, "detailed") == f"{standard}\ncall: toolu_1"
    assert text(FAILED, "raw") == "error quota: Try tomorrow."


@pytest.mark.parametrize("form", FORMATS)
def test_an_observation_is_the_same_text_behind_its_word(form: ResponseFormat) -> None:
    assert text(TABLE, form, is_observation=True) == f"Observation: {text(TABLE, form)}"
    own = TABLE._replace(observation="Two people.", summary="A table.")
    seen = text(own, form, is_observation=True)
    assert ("Two people." in seen) == (form != "raw")
    assert "A table." not in seen


def test_a_text_stays_as_it_is_but_for_xml() -> None:
    shown = Shown("t", "a < b\n")
    assert text(shown, "raw", "toon") == "a < b\n"
    assert text(shown, "raw", "xml") == '<tool_result name="t">a &lt; b\n</tool_result>'


@settings(max_examples=effort(40, 5_000))
@given(VALUES, st.sampled_from(FORMATS), st.sampled_from(ENCODINGS), st.booleans())
def test_the_outputs_of_one_tool_begin_alike(
    value: Any, form: ResponseFormat, encoding: Encoding, is_observation: bool
) -> None:
    start = "Observation: " * is_observation + "[search] " * (form != "raw")
    shown = Shown("search", value, call_id="toolu_9")
    seen = rendered(shown, form, encoding, is_observation=is_observation)
    assert seen.text.startswith(start)
    assert seen.tokens_estimated >= bool(seen.text)
    assert ("toolu_9" in seen.text) == (form == "detailed")


def test_a_summary_of_ten_megabytes_is_cut_and_says_so() -> None:
    seen = text(Shown("t", 1, summary="x" * 10_000_000), "standard")
    assert len(seen) < SUMMARY_CHARS_MAX + 200
    assert "[cut: the first 4,000 of 10,000,000 characters]" in seen


@table(
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
