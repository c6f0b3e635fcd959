"""Attack cases D1-D13: bytes and values that are meant to break their decoder.

D12 (a flood) is tested here for the results of tools, and in test_poison_attacks.py for streams. D13 (a
decompression bomb) has few targets: logs hold no compressed data, and a model's answer is cut off by its
decompressed size.
"""

import asyncio
import dataclasses
import importlib
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from callboard import Agent, AnthropicModel, Limits, Runtime, ScriptedModel
from callboard import call as scripted_call
from callboard.actors.protocol import codec
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.errors import CorruptLog, InvalidPrompt, StoreTooNew, StoreUnreadable
from callboard.actors.protocol.port_messages import CallTool
from callboard.replay.recording import Recording
from callboard.runtime import large_values
from callboard.runtime.models import watched
from callboard.runtime.sanitize import check_json, to_json
from callboard.runtime.tools.context import LateContext, ToolContext
from callboard.runtime.tools.execution import ToolRunner
from callboard.runtime.tools.output import ToolOutcome
from callboard.runtime.tools.tool import Tool, tool
from tests import golden
from tests.messages_api import MessagesApi, json_answer
from tests.tables import table


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi() as running:
        yield running


def assert_refused(text: str | bytes, *words: str) -> None:
    with pytest.raises(InvalidPrompt) as caught:
        check_json(text)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000])
def test_d1_a_hundred_thousand_brackets_are_refused_without_a_recursion_error(text: str) -> None:
    assert_refused(text, "nested deeper than 64")


def test_d1_a_list_nested_five_thousand_deep_is_refused_without_a_recursion_error() -> None:
    value: object = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        to_json(value)
    # and where a caller allows such depth, the parser's own limit is a refusal too
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        check_json("[" * 20_000 + "]" * 20_000, max_depth=30_000)


class CountedBytes(bytes):
    """Bytes that count how many of them their methods have read; what the methods make counts too."""

    read = 0

    def _count(self) -> None:
        CountedBytes.read += len(self)

    def strip(self, *arguments: Any) -> "CountedBytes":
        self._count()
        return CountedBytes(super().strip(*arguments))

    def replace(self, *arguments: Any) -> "CountedBytes":
        self._count()
        return CountedBytes(super().replace(*arguments))

    def translate(self, *arguments: Any, **named: Any) -> "CountedBytes":
        self._count()
        return CountedBytes(super().translate(*arguments, **named))

    def find(self, *arguments: Any) -> int:
        self._count()
        return super().find(*arguments)

    def count(self, *arguments: Any) -> int:
        self._count()
        return super().count(*arguments)

    def split(self, *arguments: Any) -> list[bytes]:
        self._count()
        return super().split(*arguments)


def bytes_read(text: bytes) -> int:
    """Count the bytes that are read to refuse a text as too deep."""
    CountedBytes.read = 0
    assert_refused(CountedBytes(text), "nested deeper than 64")
    return CountedBytes.read


QUOTES: dict[str, Callable[[int], bytes]] = {
    "escaped": lambda count: b'\\"' * count + b"[" * 65,
    "escaped in a string": lambda count: b'"' + b'\\"' * count + b"[" * 65 + b'"' + b"[" * 65,
    "alone": lambda count: b'"[' * count + b"[" * 65,
}


@pytest.mark.parametrize("made", QUOTES.values(), ids=list(QUOTES))
def test_d1_quotes_that_never_close_cost_linear_work(made: Callable[[int], bytes]) -> None:
    few, many = bytes_read(made(5_000)), bytes_read(made(50_000))
    assert few > len(made(5_000)), "the bytes are counted"
    assert many <= 11 * few


def test_d1_a_reader_that_starts_again_after_each_quote_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def starting_again(data: bytes, *_: object) -> list[bytes]:
        while data.find(b'\\"') >= 0:
            data = data.replace(b'\\"', b"", 1)
        return [data]

    monkeypatch.setattr(large_values, "_outside", starting_again)
    made = QUOTES["escaped"]
    assert bytes_read(made(1_000)) > 20 * bytes_read(made(100))


def test_d2_a_number_of_a_million_digits_is_refused() -> None:
    assert_refused("1" * 1_000_000, "not valid JSON")
    assert_refused('{"n": ' + "9" * 1_000_000 + "}", "not valid JSON")


@table("word", ["NaN", "Infinity", "-Infinity", "nan", "inf"])
def test_d3_words_for_nan_and_infinity_are_refused(word: str) -> None:
    assert_refused(word, "not valid JSON")
    assert_refused(f'{{"a": [{word}]}}', "not valid JSON")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_d3_nan_and_infinity_are_never_written_as_null(value: float) -> None:
    for wrapped in (value, [value], {"a": {"b": value}}, (None, value)):
        with pytest.raises(InvalidPrompt, match="JSON has no such number"):
            to_json(wrapped)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 400 + ".0", "1e99999999999"])
def test_d4_numbers_beyond_a_float_are_refused(number: str) -> None:
    assert_refused(number, "out of range")


def test_d5_lone_surrogates_are_cleaned_on_every_way_in() -> None:
    for cleaned in (to_json({"t": "\ud800"}), check_json('{"t":"\ud800"}'), check_json(r'{"t":"\ud800"}')):
        assert msgspec.json.decode(cleaned) == {"t": "\ufffd"}


def test_d5_a_surrogate_in_utf8_bytes_is_refused() -> None:
    with pytest.raises(InvalidPrompt, match=r"(?i)utf-8"):  # its words depend on the version of msgspec
        check_json(b'"\xed\xa0\x80"')


def test_d6_nul_is_made_visible_on_every_way_in() -> None:
    for cleaned in (to_json({"t": "a\0"}), check_json('{"t":"a\0"}'), check_json(r'{"t":"a\u0000"}')):
        assert msgspec.json.decode(cleaned) == {"t": "a␀"}


def test_d7_a_key_twice_is_refused() -> None:
    assert_refused('{"role": "user", "role": "system"}', "'role'", "twice")


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
        assert_refused(text[:end], "not valid JSON")
    body = codec.encode(CallTool(1, 0, "t", "read", check_json(text)))
    for end in range(len(body)):
        with pytest.raises(codec.UnreadableBody):
            codec.decode(body[:end])


@table("junk", [b" 2", b"]", b"{}", b"\x00", b",", b"\xef\xbb\xbf"])
def test_d10_anything_behind_the_value_is_refused(junk: bytes) -> None:
    assert_refused(b"[1]" + junk, "not valid JSON")


@pytest.mark.parametrize("tag", ["PRAGMA user_version = 99", "PRAGMA application_id = 1"])
def test_d11_a_log_of_another_kind_or_of_a_later_version_is_refused(tag: str, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    Runtime(path, model=ScriptedModel(["hi"])).run_sync(Agent("host"), "go", session_id="one")
    connection = sqlite3.connect(path)
    connection.execute(tag)
    connection.close()
    for open_it in (
        lambda: Recording.open(path, "one"),
        lambda: Runtime(path, model=ScriptedModel(["hi"])).run_sync(Agent("host"), "go"),
    ):
        with pytest.raises((StoreTooNew, StoreUnreadable)):
            open_it()


def test_d11_a_session_that_lives_by_later_rules_is_refused() -> None:
    first, *rest = golden.golden("report")
    assert isinstance(first.body, SessionOpened)
    later = msgspec.structs.replace(first, body=msgspec.structs.replace(first.body, rules=99))
    recording = golden.recorded([later, *rest])
    for read in (
        Recording.verify,
        Recording.tree,
        lambda one: one.state(4, "host"),
        lambda one: one.states(4),
    ):
        with pytest.raises(CorruptLog, match="rules 99"):
            read(recording)


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


def test_d12_a_huge_structured_output_is_cut_with_a_note_and_no_stall() -> None:
    shared: object = ["x" * 1_000] * 1_000
    for _ in range(20):
        shared = [shared, shared]

    @tool(effect="read")
    async def rows() -> object:
        return shared

    outcome = call(rows, b"{}")
    assert outcome.status == "ok"
    assert len(bytes(outcome.output)) < 2**20
    assert b"cut" in bytes(outcome.output)


@pytest.mark.slow
def test_d13_a_log_holds_no_compressed_data_that_could_unfold(tmp_path: Path) -> None:
    blank = " " * 5_000_000

    @tool(effect="read")
    async def big() -> str:
        return blank

    path = tmp_path / "log.db"
    model, limits = ScriptedModel([scripted_call("big"), "done"]), Limits(max_tool_output_chars=10_000_000)
    runtime = Runtime(path, model=model, limits=limits)
    assert runtime.run_sync(Agent("host", tools=[big]), "go", session_id="one").text == "done"
    assert path.stat().st_size > len(blank)
    assert max(len(row.body) for row in Recording.open(path, "one").rows) < path.stat().st_size


@pytest.mark.slow
def test_d13_an_answer_that_unfolds_without_measure_is_cut_off(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "ANSWER_BYTES_MAX", 4 * 2**20)
    deflate = zlib.compressobj(wbits=31)
    bomb = b"".join(deflate.compress(bytes(2**20)) for _ in range(64)) + deflate.flush()
    assert len(bomb) < 2**17
    api.add(dataclasses.replace(json_answer({}, content_encoding="gzip"), body=bomb))
    model = AnthropicModel("m", api_key="key-for-test", base_url=api.url, stream=False)
    host = Agent("host", limits=Limits(max_model_attempts=1))
    importlib.import_module("anthropic")  # under tracemalloc that takes 20 s
    tracemalloc.start()
    outcome = Runtime(":memory:", model=model).run_sync(host, "go")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert outcome.kind == "model_error"
    assert "larger than 4194304 bytes" in outcome.detail
    assert peak < 150_000_000


def call(made: Tool, arguments: bytes) -> ToolOutcome:
    async def main() -> ToolOutcome:
        runner = ToolRunner()
        late = LateContext(ToolContext)
        answer = runner.run(made, check_json(arguments), late, timeout_s=5, max_chars=50_000)
        outcome = answer if isinstance(answer, ToolOutcome) else await answer
        await runner.aclose()
        return outcome

    return asyncio.run(main())
