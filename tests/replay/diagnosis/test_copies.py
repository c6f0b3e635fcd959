"""Ids and numbers that a session has given its agents, and those with a slip."""

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded
from callboard.replay.diagnosis import given_values
from callboard.replay.diagnosis.copies import CopiedIds, CopiedNumbers
from callboard.replay.diagnosis.finding import Returned, ToolCall
from tests.tables import table


def _returned(
    check: CopiedIds | CopiedNumbers, seq: int, arguments: bytes, output: bytes, effect: Effect = "read"
) -> None:
    call = ToolCall(seq, "host", "get", effect, arguments)
    check.returned(call, Returned(seq + 1, "ok", hash(output), output))


def _slips(*given: bytes, asked: str = "ord-48213") -> list[str]:
    check = CopiedIds()
    for seq, output in enumerate(given):
        _returned(check, 2 * seq + 1, b"{}", output)
    _returned(check, 99, b'{"order": "%s"}' % asked.encode(), b'"cancelled"', "write")
    return [finding.command.casefold() for finding in check.findings()]


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
    monkeypatch.setattr(given_values, "_UNREAD_MAX", 100)
    assert _slips(b"ord-48231", *[b"word " * 10] * 20) == ["search {session} ord-48231"]


def _wrong(given: bytes, said: str, check: CopiedIds | CopiedNumbers) -> list[str]:
    _returned(check, 1, b"{}", given)
    check.take(Event(9, 0, "supervisor", "client", 8, AskEnded("r", "answered", text=said)))
    return [finding.says for finding in check.findings()]


@table(
    ("given", "said"),
    [
        (b'{"cents":41900}', "It costs 49,100."),
        (b'{"cents": 41900}', "49100 cents"),
        (b"[10000,41900,77]", "In all 49,100."),
        (b'"41900,50 EUR"', "49100,50 EUR"),
        (b'"-41,900"', "-49,100"),
        (b'"41 900"', "49.100"),
        (b"390534", "39,053"),
        (b"390534", "3,905,534"),
        (b"390534.25", "930534.25"),
    ],
)
def test_a_number_with_a_slip_is_found(given: bytes, said: str) -> None:
    assert len(_wrong(given, said, CopiedNumbers())) == 1


@table(
    ("given", "said"),
    [
        (b'{"order": "ORD-48213"}', "The order is ORD-48231."),
        (b"track 1Z999AA10123456784", "See https://parcel.example/1Z999AA10123465784?x"),
        (b"978-3-16-148410-0", '{"isbn": "978-3-16-184410-0"}'),
        (b"INV-2024-00417", "**INV-2024-0417** is paid"),
        (b"call 1-800-555-0199", "Call 1-800-555-0919."),
        (b"QX7-30918", "XQ7-30918 is sold"),
    ],
)
def test_an_id_with_a_slip_in_an_answer_is_found_with_the_one_that_was_given(given: bytes, said: str) -> None:
    (says,) = _wrong(given, said, CopiedIds())
    assert says.startswith("host answered ")


@table(
    ("given", "said"),
    [
        (b"ORD-48213 and ORD-48231", "ORD-48231"),
        (b"ORD-48213", "ORD-48213, ord-48213, ORD 48213, ORD-48219, ORD-482137"),
        (b"2024-12-12, 12-11-2024, report-20241212.md", "2024-12-21, 11-12-2024, report-20241221.md"),
        (b"sha256, utf-16, v12-3", "sha265, utf-61, v21-3"),
        (b"page-1009", "page-1010"),
        (b"run-48213 " + b"x" * 2**20, "run-48231"),
    ],
)
def test_an_id_that_was_given_or_may_have_been_and_a_date_are_no_slip(given: bytes, said: str) -> None:
    assert _wrong(given, said, CopiedIds()) == []


@table(
    ("given", "said"),
    [
        (b'{"cents":41900}', "419.00 or 41,900 or 41 900"),
        (b"[41900,49100]", "49,100"),
        (b"12.3456", "12.346"),
        (b"137714.24", "137,714"),
        (b"120450", "12045"),
        (b"4190", "4910"),
        (b'"2024-01-15"', "2024-01-51"),
        (b'"A-41900"', "A-49100"),
        (b"15000", "10500"),
        (b"10000", "120000"),
        (b"41900 " + b"x" * 2**20, "49100"),
    ],
)
def test_a_number_that_was_given_or_calculated_is_no_slip(given: bytes, said: str) -> None:
    assert _wrong(given, said, CopiedNumbers()) == []


def test_a_slip_of_a_child_is_told_once_and_of_the_child() -> None:
    check = CopiedNumbers()
    _returned(check, 1, b"{}", b"41900")
    check.take(
        Event(5, 0, "supervisor", "host", 4, DelegationEnded(1, 0, "answered", "host.1", text="49100"))
    )
    check.take(Event(9, 0, "supervisor", "client", 8, AskEnded("r", "answered", text="49,100")))
    (finding,) = check.findings()
    assert (finding.agent, finding.seq, finding.command) == ("host.1", 5, "search {session} 41900")
