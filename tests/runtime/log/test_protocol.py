"""Both stores and both readers fulfil the protocol, and its values keep their fields."""

from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import EMPTY, GENESIS, EventLog, Head, LogReader, Stored
from callboard.runtime.log.sqlite.log import SQLiteLog
from callboard.runtime.log.sqlite.reader import SQLiteReader

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
