"""Which ids a session has given an agent, and which it has not."""

import pytest

from callboard.actors.protocol.effects import Effect
from callboard.replay.diagnosis import resources
from callboard.replay.diagnosis.finding import Returned, ToolCall
from callboard.replay.diagnosis.resources import CopiedIds
from tests.tables import table


def _returned(check: CopiedIds, seq: int, arguments: bytes, output: bytes, effect: Effect = "read") -> None:
    call = ToolCall(seq, "host", "get", effect, arguments)
    check.returned(call, Returned(seq + 1, "ok", hash(output), output))


def _slips(*given: bytes, asked: str = "ord-48213") -> list[str]:
    check = CopiedIds()
    for seq, output in enumerate(given):
        _returned(check, 2 * seq + 1, b"{}", output)
    _returned(check, 99, b'{"order": "%s"}' % asked.encode(), b'"cancelled"', "write")
    return [finding.command for finding in check.findings()]


@table(
    "text",
    [
        b"ord-48231",
        b"-ord-48231",
        b"__ord-48231,",
        b"words before ord-48231",
        b"line\\nord-48231",
        b"7 ord-48231",
        b"ORD-48231",
        b"x9" * 40 + b" ord-48231",
    ],
)
def test_an_id_is_found_wherever_it_stands_in_a_result(text: bytes) -> None:
    assert _slips(text) == ["search {session} ord-48231"]


@pytest.mark.parametrize("text", [b"ord-48213", b"no number here", b"4821", b"prefixord-48231"])
def test_an_id_that_was_given_or_is_like_no_other_is_no_slip(text: bytes) -> None:
    assert _slips(text) == []


def test_ids_are_remembered_when_many_texts_came_before_the_first_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resources, "_UNREAD_MAX", 100)
    assert _slips(b"ord-48231", *[b"word " * 10] * 20) == ["search {session} ord-48231"]
