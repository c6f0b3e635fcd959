"""Both stores and both readers fulfil the protocol, and its values keep their fields."""

import pytest

from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.upcasters import FORMAT
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
)
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
