"""A session of a log in memory: its row follows its events, and a hidden one keeps what its forks share."""

from callboard.actors.protocol.client_messages import RULES, Ask, AskEnded, SessionOpened
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory_session import MemorySession, pack, unpack
from callboard.runtime.log.protocol import GENESIS, Head, Stored
from callboard.runtime.log.session_rows import SessionRow
from tests.runtime.log.kit import event, events, seal_one


def session() -> MemorySession:
    return MemorySession(SessionRow("s", 1, 0, 5, ""), Head(0, GENESIS), Head(0, GENESIS))


def test_a_row_is_packed_and_unpacked_as_it_was() -> None:
    row = seal_one(HashChain(), "s", GENESIS, event(1))
    assert unpack(pack(row)) == row


def test_the_row_follows_the_events() -> None:
    made = session()
    made.head = Head(2, b"d" * 32)
    made.note([event(1, Ask("r", Json(b'"go"'))), event(2, AskEnded("r", "answered"))])
    row = made.row
    assert (row.head, row.title, row.status, row.kind) == (2, "go", "open", "answered")
    assert row.last_ms == event(2).at


def test_the_row_keeps_the_host_and_counts_failures_until_the_next_ask() -> None:
    made = session()
    failed = DelegationEnded(1, 0, "budget")
    opened = SessionOpened(RULES, "boss", (), ModelSpec("m"), tags=("a",))
    steps: list[tuple[list[AnyMessage], int]] = [
        ([opened, failed], 1),
        ([failed], 2),
        ([Ask("r", Json(b'"go"')), failed], 1),
    ]
    for bodies, failures in steps:
        made.note([event(1, body) for body in bodies])
        assert (made.row.host, made.row.failures, made.row.tags) == ("boss", failures, ("a",))


def test_usage_is_summed_by_its_place() -> None:
    made = session()
    for tokens in (3, 4):
        made.add_usage([Charge("2026-11-29", "m", "p", Usage(tokens, calls=1))])
    assert made.row.usage == Usage(7, calls=2)


def test_a_session_that_is_cut_keeps_its_first_events() -> None:
    made = session()
    made.rows = [pack(seal_one(HashChain(), "s", GENESIS, one)) for one in events(1, 5)]
    made.cut(Stored(2, 1, "a", "b", 0, b"{}", b"d" * 32))
    assert (made.is_hidden, len(made.rows), made.head) == (True, 2, Head(2, b"d" * 32))
