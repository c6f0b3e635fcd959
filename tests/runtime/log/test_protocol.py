"""Both stores and both readers fulfil the protocol, and its values keep their fields."""

import pytest

from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.upcasters import FORMAT
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import (
    EMPTY,
    GENESIS,
    EventLog,
    Head,
    LogReader,
    Stored,
    check_format,
    check_rules,
    event_of,
    has_forks,
    no_base,
)
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import event, large, run, seal_one
from tests.runtime.log.transcripts import has_usual_defaults

LOGS: tuple[type[EventLog], ...] = (MemoryLog, SQLiteLog)
READERS: tuple[type[LogReader], ...] = (MemoryReader, SQLiteReader)


def test_every_store_and_reader_has_every_method_of_its_protocol() -> None:
    for kind, protocol in ((LOGS, EventLog), (READERS, LogReader)):
        wanted = {name for name in vars(protocol) if not name.startswith("_")}
        for each in kind:
            assert wanted <= set(dir(each))


def test_an_empty_session_stands_at_nought() -> None:
    assert Head(0, GENESIS) == EMPTY
    assert bytes(32) == GENESIS


def test_a_stored_event_cannot_be_changed() -> None:
    assert Stored.__struct_config__.frozen


def test_sessions_of_another_format_or_of_later_rules_are_named() -> None:
    check_format("s", 1, FORMAT)
    check_rules("s", 1, RULES)
    for check, odd, said in (
        (check_format, "99.0", "session s has format 99.0; this callboard reads up to"),
        (check_format, "one", "session s has the format 'one', which is none"),
        (check_rules, RULES + 1, "session s"),
    ):
        with pytest.raises(CorruptLog, match=said) as info:
            check("s", 4, odd)  # type: ignore[arg-type]  # each takes its own kind
        assert info.value.seq == 4


def test_a_log_that_keeps_no_such_note_says_that_no_session_waits() -> None:
    assert run(lambda: EventLog.waiting_since(MemoryLog(), "s")) == 0


def test_a_reader_is_closed_at_the_end_of_its_block() -> None:
    class Noting(MemoryReader):
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    reader = Noting(MemoryLog())
    with reader as given:
        assert given is reader
        assert not reader.is_closed
    assert reader.is_closed


def test_a_row_is_whole_with_its_values_in_their_places() -> None:
    for posted in (large(7), event(7, cause=3)):
        row = seal_one(HashChain(), "s", GENESIS, posted)
        whole = row.whole()
        assert whole == Stored(
            7, row.at, row.sender, row.recipient, row.cause, encode(posted.body), row.digest
        )
        assert event_of("s", whole) == posted


def test_a_body_that_no_message_has_is_named_by_its_event() -> None:
    row = Stored(7, 1, "a", "b", 0, b'{"kind":"Nothing"}', GENESIS)
    with pytest.raises(CorruptLog, match="session s, event 7: ") as info:
        event_of("s", row)
    assert info.value.seq == 7


@pytest.mark.parametrize(("count", "named"), [(1, "f1;"), (12, "f11, f12;"), (13, "f12, ...;")])
def test_the_error_of_a_session_with_forks_names_twelve_at_most(count: int, named: str) -> None:
    said = str(has_forks("s", [f"f{number}" for number in range(1, count + 1)]))
    assert "session s has forks" in said
    assert named in said


def test_the_error_of_a_fork_at_no_event_names_those_that_there_are() -> None:
    assert str(no_base("s", 9, 4)) == "session s has events 1 to 4: it cannot be forked at 9"


def test_a_page_has_ten_thousand_events_unless_its_reader_says_otherwise() -> None:
    has_usual_defaults(EventLog, LogReader)
