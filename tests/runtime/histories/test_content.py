"""The content of messages of three APIs becomes blocks of one."""

from typing import Any

import pytest

from callboard.errors import InvalidHistory
from callboard.runtime.histories.content import Repair, Repairs, blocks_in, left_out, text_of, without_marks
from tests.tables import table

PNG = "data:image/png;base64,QQ=="
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
LINK = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}}


@table(
    ("content", "blocks"),
    [
        (None, []),
        (" ", []),
        ("a", [text_of("a")]),
        (
            ["a", {"text": "b"}, {"type": "output_text", "text": "c"}],
            [text_of("a"), text_of("b"), text_of("c")],
        ),
        ({"type": "input_text", "text": {"value": "a"}}, [text_of("a")]),
        ([{"type": "refusal", "refusal": "No."}], [text_of("No.")]),
        ([{"type": "image_url", "image_url": {"url": PNG}}], [IMAGE]),
        ([{"type": "input_image", "image_url": "https://example.com/a.png"}], [LINK]),
        ([{"type": "input_image", "file_id": "file_1"}], [left_out("image")]),
        ([{"type": "file", "file": {"file_data": "data:application/pdf;base64,QQ=="}}], [PDF]),
        ([{"type": "input_file", "file_id": "file_1"}], [left_out("document")]),
        ([{"type": "input_image", "image_url": "file:///etc/passwd"}], [left_out("image")]),
        ([{"type": "input_audio", "input_audio": {"data": "QQ=="}}], [left_out("input_audio")]),
        ([{"x": 1}], [text_of('{"x":1}')]),
        ([{"type": "tool-call", "input": {}}], [text_of('{"type":"tool-call","input":{}}')]),
        ([IMAGE, {"type": "thinking", "thinking": "x"}], [IMAGE, {"type": "thinking", "thinking": "x"}]),
        ([3], [text_of("3")]),
    ],
)
def test_each_part_becomes_a_block(content: object, blocks: list[Any]) -> None:
    assert blocks_in(content) == blocks


def test_cache_marks_are_taken_from_blocks_and_the_blocks_in_them() -> None:
    marked = {"type": "text", "text": "a", "cache_control": {}}
    assert without_marks({"type": "tool_result", "content": [marked, "b"], "cache_control": {}}) == {
        "type": "tool_result",
        "content": [text_of("a"), "b"],
    }


def test_a_history_without_faults_is_not_refused() -> None:
    repairs = Repairs()
    repairs.refuse()
    assert repairs.made == ()


def test_the_refusal_names_the_first_message_and_how_many_more_there_are() -> None:
    repairs = Repairs()
    repairs.add(4, "is empty", "it is left out")
    repairs.add(2, "x" * 1_000, "it is left out")
    assert [one.index for one in repairs.made] == [2, 4]
    with pytest.raises(
        InvalidHistory, match=r"messages\[2\] x+ \(and 1 more\); History\(\.\.\., repair=True\)"
    ):
        repairs.refuse()
    assert repairs.made[0] == Repair(2, "x" * 300, "it is left out")
