"""Attack cases D1-D10 and D12: bytes and values that are meant to break whoever decodes them.

D11 (a wrong version tag) belongs to the store; D13 (compression) to nothing that exists.
"""

import asyncio
import tracemalloc

import msgspec
import pytest

from callboard.actors import codec
from callboard.actors.errors import InvalidPrompt
from callboard.actors.messages import CallTool
from callboard.runtime.boundary import check_json, to_json
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome
from callboard.runtime.tools.tool import Tool, tool


def refused(text: str | bytes, *words: str) -> None:
    with pytest.raises(InvalidPrompt) as caught:
        check_json(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_d1_a_hundred_thousand_brackets_are_refused_without_a_recursion_error(text: str) -> None:
    refused(text, "nested deeper than 64")


def test_d1_a_list_nested_five_thousand_deep_is_refused_without_a_recursion_error() -> None:
    value: object = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        to_json(value)
    # and where a caller allows such depth, the parser's own limit is a refusal too
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        check_json("[" * 20_000 + "]" * 20_000, max_depth=30_000)


def test_d1_quotes_that_never_close_cost_linear_time() -> None:
    refused('\\"' * 1_000_000 + "[" * 65)
    refused('"' + '\\"' * 1_000_000 + "[" * 65)


def test_d2_a_number_of_a_million_digits_is_refused() -> None:
    refused("1" * 1_000_000, "not valid JSON")
    refused('{"n": ' + "9" * 1_000_000 + "}", "not valid JSON")


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "nan", "inf"])
def test_d3_words_for_no_number_are_refused(word: str) -> None:
    refused(word, "not valid JSON")
    refused(f'{{"a": [{word}]}}', "not valid JSON")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_d3_no_number_is_never_written_as_null(value: float) -> None:
    for wrapped in (value, [value], {"a": {"b": value}}, (None, value)):
        with pytest.raises(InvalidPrompt, match="JSON has no such number"):
            to_json(wrapped)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".0", "1e99999999999"])
def test_d4_numbers_beyond_a_float_are_refused(number: str) -> None:
    refused(number, "out of range")


def test_d5_lone_surrogates_are_cleaned_on_every_way_in() -> None:
    for cleaned in (to_json({"t": "\ud800"}), check_json('{"t":"\ud800"}'), check_json(r'{"t":"\ud800"}')):
        assert msgspec.json.decode(cleaned) == {"t": "\ufffd"}


def test_d5_a_surrogate_in_utf8_bytes_is_refused() -> None:
    refused(b'"\xed\xa0\x80"', "utf-8")


def test_d6_nul_is_made_visible_on_every_way_in() -> None:
    for cleaned in (to_json({"t": "a\0"}), check_json('{"t":"a\0"}'), check_json(r'{"t":"a\u0000"}')):
        assert msgspec.json.decode(cleaned) == {"t": "a␀"}


def test_d7_a_key_twice_is_refused() -> None:
    refused('{"role": "user", "role": "system"}', "'role'", "twice")


def test_d8_an_unknown_field_is_refused_in_messages_and_in_tool_arguments() -> None:
    body = codec.encode(CallTool(1, 0, "t", "read", to_json({})))
    with pytest.raises(codec.UnreadableBody, match="admin"):
        codec.decode(body[:-1] + b',"admin":true}')

    @tool
    async def delete(path: str) -> None:
        raise AssertionError("must not run")

    outcome = call(delete, b'{"path":"a","admin":true}')
    assert outcome.status == "error"
    assert b"admin" in bytes(outcome.output)


def test_d9_an_unknown_tag_is_refused() -> None:
    with pytest.raises(codec.UnreadableBody):
        codec.decode(b'{"type":"os.system","turn":1}')
    with pytest.raises(codec.UnreadableBody):
        codec.decode(b'{"lc":1,"type":"constructor","id":["os"]}')


def test_d10_bytes_cut_off_anywhere_are_refused() -> None:
    text = '{"a": ["é😀", -1.5e3, true, null, {"b": "\\ud83d\\ude00\\n"}], "c": {}}'.encode()
    check_json(text)
    for end in range(len(text)):
        refused(text[:end], "not valid JSON")
    body = codec.encode(CallTool(1, 0, "t", "read", check_json(text)))
    for end in range(len(body)):
        with pytest.raises(codec.UnreadableBody):
            codec.decode(body[:end])


@pytest.mark.parametrize("junk", [b" 2", b"]", b"{}", b"\x00", b",", b"\xef\xbb\xbf"])
def test_d10_anything_behind_the_value_is_refused(junk: bytes) -> None:
    refused(b"[1]" + junk, "not valid JSON")


def test_d12_a_huge_tool_output_is_cut_before_it_is_copied() -> None:
    huge = "x" * 100_000_000

    @tool(effect="read")
    async def cat() -> str:
        return huge

    tracemalloc.start()
    outcome = call(cat, b"{}")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.status == "ok"
    assert len(bytes(outcome.output)) < 51_000
    assert b"100,000,000" in bytes(outcome.output)
    assert peak < 5_000_000


def test_d12_a_huge_structured_output_is_an_error_and_not_a_stall() -> None:
    shared: object = ["x" * 1_000] * 1_000
    for _ in range(20):
        shared = [shared, shared]

    @tool(effect="read")
    async def rows() -> object:
        return shared

    outcome = call(rows, b"{}")
    assert outcome.status == "error"
    assert b"too large" in bytes(outcome.output)


def call(made: Tool, arguments: bytes) -> ToolOutcome:
    async def main() -> ToolOutcome:
        runner = ToolRunner()
        answer = runner.run(made, check_json(arguments), ToolContext(), timeout_s=5, max_chars=50_000)
        outcome = answer if isinstance(answer, ToolOutcome) else await answer
        await runner.aclose()
        return outcome

    return asyncio.run(main())
