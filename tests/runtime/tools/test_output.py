import asyncio
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.errors import ToolError
from callboard.runtime.sanitize import MAX_DEPTH
from callboard.runtime.secrets.redactor import Redactor
from callboard.runtime.tools.output import (
    MAX_ERROR_CHARS,
    Blocks,
    cut,
    describe,
    failed,
    returned,
)
from tests.tables import table

TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}


class Point(msgspec.Struct):
    x: int


@dataclasses.dataclass
class Box:
    label: str


def read(value: object, max_chars: int = 1_000) -> object:
    outcome = returned(value, max_chars)
    assert outcome.status == "ok"
    return msgspec.json.decode(outcome.output)


def refusal(value: object) -> str:
    outcome = returned(value, 1_000)
    assert outcome.status == "error"
    text = msgspec.json.decode(outcome.output, type=str)
    assert text.startswith("The tool ran, but what it returned cannot be used: ")
    return text


@table(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "(no output)"),
        (3, "3"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ((1, 2), "[1,2]"),
        ([], "[]"),
        (Point(1), '{"x":1}'),
        (Box("b"), '{"label":"b"}'),
        ([{"type": "user", "id": 1}], '[{"type":"user","id":1}]'),
        ([{"type": "text", "value": 1}], '[{"type":"text","value":1}]'),
        ([TEXT, 3], '[{"type":"text","text":"hello"},3]'),
        ("a\0\ud800", "a␀\ufffd"),
    ],
)
def test_what_a_tool_returns_becomes_text(value: object, text: str) -> None:
    assert read(value) == text


def test_content_blocks_are_passed_on_as_they_are() -> None:
    assert read([TEXT, IMAGE]) == [TEXT, IMAGE]
    custom = {"type": "new_kind", "x": 1}
    assert read(Blocks([custom, TEXT])) == [custom, TEXT]


@table(
    ("value", "text"),
    [
        (b"raw\n", "raw\n"),
        ({"a": b"raw"}, '{"a":"raw"}'),
        ({2, 1}, "[1,2]"),
        (float("nan"), "null\n[note: numbers that are not finite are null: $]"),
        (deque([1]), "[1]"),
        ((n for n in (1, 2)), "[1,2]"),
        (map(str, [1]), '["1"]'),
        (Blocks([{"text": "x"}]), '[{"text":"x"}]'),
    ],
)
def test_a_value_of_any_other_type_is_taken_with_a_note_on_what_json_cannot_hold(
    value: object, text: str
) -> None:
    assert read(value) == text


def test_a_note_is_kept_where_the_text_is_cut() -> None:
    text = str(read([float("nan"), *range(1_000)], max_chars=400))
    assert len(text) <= 400
    assert "[cut: " in text
    assert text.endswith("\n[note: numbers that are not finite are null: $[0]]")
    assert str(read([float("nan")], max_chars=10)).startswith("\n[cut: these are the first 0 of 6 ")
    blocks = read([{**TEXT, "more": float("inf")}])
    assert isinstance(blocks, list)
    assert blocks[1]["text"] == "[note: numbers that are not finite are null: $[0].more]"


def test_a_program_gets_bytes_as_typed_readers_want_them_and_no_notes() -> None:
    outcome = returned({"a": b"raw", "b": float("nan")}, 100, may_cut=False)
    assert msgspec.json.decode(outcome.output) == '{"a":"cmF3","b":null}'
    outcome = returned([float("nan"), "x" * 20_000_000], 10**9, may_cut=False)
    assert outcome.status == "error"
    assert b"too large for a value" in bytes(outcome.output)


def test_an_async_iterator_is_refused_because_it_has_not_run() -> None:
    async def later() -> AsyncIterator[int]:
        yield 1

    assert "return a list" in refusal(later())


def test_a_coroutine_is_closed_and_refused_without_a_warning() -> None:
    async def later() -> int:
        return 1

    assert "async def" in refusal(later())


def test_another_awaitable_is_refused() -> None:
    async def main() -> None:
        assert "async def" in refusal(asyncio.get_running_loop().create_future())

    asyncio.run(main())


def test_long_text_is_cut_with_a_notice_of_how_much() -> None:
    text = read("x" * 12_345, max_chars=1_000)
    assert isinstance(text, str)
    assert len(text) <= 1_000
    assert text.startswith("x" * 870 + "\n[cut: these are the first 870 of 12,345 characters; ask for a part")
    assert "first" in str(read(list(range(1_000)), max_chars=300))
    assert read("x" * 1_000, max_chars=1_000) == "x" * 1_000


def test_texts_of_blocks_are_cut_together_and_images_are_kept() -> None:
    long = {"type": "text", "text": "y" * 900}
    blocks = read([long, IMAGE, long, long], max_chars=1_000)
    assert isinstance(blocks, list)
    assert [block["type"] for block in blocks] == ["text", "image", "text"]
    assert blocks[0] == long
    assert "of 900 characters" in blocks[2]["text"]


def test_an_error_text_is_cut_and_cleaned() -> None:
    outcome = failed("e\0" + "x" * 10_000)
    assert outcome.status == "error"
    assert len(bytes(outcome.output)) < 2_100
    assert bytes(outcome.output).startswith('"e␀x'.encode())


def test_an_exception_is_told_by_class_and_message() -> None:
    assert describe(ValueError("no \ud800")) == "ValueError: no \ufffd"
    assert describe(KeyError()) == "KeyError"
    assert len(describe(ValueError("x" * 10_000))) == 2_012


def test_a_group_of_exceptions_is_told_by_its_parts() -> None:
    group = ExceptionGroup("many", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")]), OSError("c")])
    assert describe(group) == "ExceptionGroup: ValueError: a; ExceptionGroup: KeyError: 'b'; OSError: c"


def test_an_exception_whose_message_cannot_be_read_is_told_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Mute()) == "Mute: its message cannot be read"


def test_a_group_whose_parts_cannot_be_read_is_told_all_the_same() -> None:
    class Odd(ExceptionGroup[ValueError]):
        @property
        def exceptions(self) -> tuple[ValueError, ...]:
            raise RuntimeError("no")

    assert describe(Odd("all", [ValueError("x")])) == "Odd: its message cannot be read"


def test_a_value_that_fights_being_read_is_a_note() -> None:
    class Hostile(Mapping[str, object]):
        def __getitem__(self, key: str) -> object:
            raise OSError("no")

        def __iter__(self) -> Iterator[str]:
            raise OSError("no")

        def __len__(self) -> int:
            raise OSError("no")

    assert "Hostile that raised OSError are left out: $.a]" in str(read({"a": Hostile(), "b": 1}))


@given(st.text(max_size=600), st.integers(1, 500))
def test_a_cut_text_is_whole_or_a_beginning_with_a_notice(text: str, max_chars: int) -> None:
    shown = cut(text, max_chars)
    if len(text) <= max_chars:
        assert shown == text
    else:
        kept, _, notice = shown.rpartition("\n[cut: ")
        assert text.startswith(kept)
        assert f"of {len(text):,} characters" in notice
        assert len(shown) <= max(max_chars, 130 + max_chars // 2)


def hiding() -> Redactor:
    redactor = Redactor()
    redactor.learn("DOOR", "open-sesame")
    return redactor


@table("before", range(160, 185))
def test_no_part_of_a_secret_is_left_at_a_cut(before: int) -> None:
    text, redactor = "." * before + "open-sesame" + "." * 500, hiding()
    blocks = [{"type": "text", "text": text}]
    shown = [
        returned(text, 300, redactor),
        returned(blocks, 300, redactor),
        returned(Blocks(blocks), 300, redactor),
        returned({"a": text}, 300, redactor),
    ]
    for outcome in shown:
        said = bytes(outcome.output).decode().split("[cut:")[0]
        assert not any(part in said for part in ("op", "open-", "-ses", "sesame"))
        assert outcome.status == "ok"


@table("inside", range(1, 11))
def test_no_part_of_a_secret_is_left_at_the_end_of_a_long_message(inside: int) -> None:
    error = ValueError("." * (MAX_ERROR_CHARS - inside) + "open-sesame")
    for told in (describe(error, hiding()), describe(ExceptionGroup("g", [error]), hiding())):
        assert "." * 1_000 in told
        assert "o" not in told.rpartition(".")[2].partition("[")[0]


def test_a_secret_in_what_cannot_be_used_is_not_told_either() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("open-sesame")

    outcome = returned({"a": [Odd()]}, 300, hiding())
    assert outcome.status == "ok"
    assert b"open-sesame" not in bytes(outcome.output)
    assert describe(ValueError(Odd()), hiding()) == "ValueError: its message cannot be read"


# --- results for programs, and what is left of errors ------------------------------------------


@pytest.mark.parametrize(
    ("value", "chars"),
    [("x" * 11, 11), ([{**TEXT, "text": "x" * 7}, IMAGE, {**TEXT, "text": "x" * 7}], 14), ([5] * 10, 21)],
)
def test_a_program_gets_a_whole_value_or_an_error_with_its_size(value: object, chars: int) -> None:
    outcome = returned(value, chars - 1, may_cut=False)
    assert outcome.status == "error"
    assert returned(value, chars, may_cut=False).status == "ok"
    full = msgspec.json.decode(returned(value, 10_000, may_cut=False).output)
    assert full == ("[5,5,5,5,5,5,5,5,5,5]" if chars == 21 else value)


def test_the_reason_why_a_program_gets_no_part_names_both_sizes() -> None:
    text = msgspec.json.decode(returned("x" * 5_000, 1_000, may_cut=False).output)
    assert "it has 5,000 characters, more than max_tool_output_chars (1,000)" in text


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "source": {"type": "text"}},
        {"type": "search_result", "content": []},
        {"type": "tool_reference", "tool_name": "t"},
    ],
)
def test_every_kind_of_content_is_passed_on(block: dict[str, object]) -> None:
    assert read([block]) == [block]
    without = {"type": block["type"]}
    assert read([without]) == f'[{{"type":"{block["type"]}"}}]'


def test_blocks_without_a_type_are_data() -> None:
    assert read(Blocks([{"type": "x"}, {"text": "y"}])) == '[{"type":"x"},{"text":"y"}]'
    assert read(Blocks([{"type": "x"}])) == [{"type": "x"}]


def test_blocks_may_nest_as_deeply_as_any_value() -> None:
    def nested(levels: int) -> dict[str, object]:
        value: object = 1
        for _ in range(levels - 1):
            value = [value]
        return {"type": "new_kind", "x": value}

    assert read(nested(MAX_DEPTH)) == msgspec.json.encode(nested(MAX_DEPTH)).decode()
    assert "[note: " in str(read(nested(MAX_DEPTH + 1)))
    assert read(Blocks([nested(MAX_DEPTH)])) == [nested(MAX_DEPTH)]
    assert "[note: " in str(read(Blocks([nested(MAX_DEPTH + 1)])))


def test_large_numbers_are_written_in_full() -> None:
    for number in (2**63, 2**64, 2**65, -(2**64)):
        assert str(read(number)).startswith(str(number))


def test_a_text_that_has_no_room_is_left_out_of_blocks() -> None:
    full, more = {**TEXT, "text": "x" * 10}, {**TEXT, "text": "y"}
    assert read([full, more], 10) == [full]
    assert read([full, more], 11) == [full, more]


def test_blank_texts_are_left_out_of_blocks() -> None:
    blank, more = {**TEXT, "text": " \n"}, {**TEXT, "text": "y"}
    assert read([blank, more, blank]) == [more]
    assert read([more, blank], 1) == [more]
    assert read([blank, blank]) == "(no output)"


def test_the_message_of_a_tool_error_stands_alone_and_one_without_a_message_has_its_class() -> None:
    assert describe(ToolError("write this")) == "write this"
    assert describe(ToolError("")) == "ToolError"
    four = [ValueError(str(n)) for n in range(4)]
    assert "ValueError: 2" in describe(ExceptionGroup("g", four))
    assert "ValueError: 3" not in describe(ExceptionGroup("g", four))


def test_half_of_a_small_room_is_kept() -> None:
    assert cut("x" * 400, 200).startswith("x" * 100 + "\n")


@given(
    st.integers(-(10**17), 10**17) | st.integers(-20, 20),
    st.sampled_from([0, 3, 14, 15, 16, 100]),
    st.booleans(),
)
def test_a_whole_number_is_written_as_its_text_is(value: int, max_chars: int, may_cut: bool) -> None:
    assert returned(value, max_chars, may_cut=may_cut) == returned(str(value), max_chars, may_cut=may_cut)


def test_true_and_false_are_not_written_as_numbers() -> None:
    assert bytes(returned(True, 100).output) == b'"true"'
