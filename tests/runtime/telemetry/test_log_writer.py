"""Log records as a program's handlers get them."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from callboard.actors.protocol.errors import Fenced, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.telemetry import records
from callboard.runtime.telemetry.log_writer import SLOW_COMMIT_S, LogWriter

FAILED = Event(
    7, 70, "tools", "host.1", 3, ToolReturned(1, 0, "error", Json(b'"KeyError: Jane"'), "x\nKeyError")
)


@contextmanager
def alone() -> Iterator[logging.Logger]:
    """Yield the logger `callboard` without any handler: pytest adds its own, above it and to it."""
    logger = logging.getLogger("callboard")
    with patch.object(logger, "propagate", False), patch.object(logger, "handlers", []):
        yield logger


def test_a_record_has_its_place_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    LogWriter().on_event("one", ("user:1", "paid"), FAILED)
    (found,) = caplog.records
    fields = {name: vars(found)[name] for name in ("session", "actor", "seq", "tag", "kind", "error")}
    assert fields == {
        "session": "one",
        "actor": "host.1",
        "seq": 7,
        "tag": "user:1,paid",
        "kind": "ToolReturned",
        "error": "KeyError",
    }
    assert found.getMessage() == "one#7: tool failed: KeyError in turn 1, call 0"
    assert "Jane" not in repr(vars(found))


def test_the_words_of_an_error_come_if_they_are_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    LogWriter(has_content=True).on_event("one", (), FAILED)
    assert caplog.records[0].getMessage().endswith(": KeyError: Jane")
    assert vars(caplog.records[0])["detail"] == "KeyError: Jane"


def test_it_is_off_without_a_handler_that_takes_records() -> None:
    with alone() as logger:
        assert not LogWriter.is_on()
        logger.addHandler(logging.NullHandler())
        assert not LogWriter.is_on()
        logger.addHandler(logging.StreamHandler())
        assert LogWriter.is_on()
        logger.setLevel(logging.CRITICAL + 1)
        try:
            assert not LogWriter.is_on()
        finally:
            logger.setLevel(logging.NOTSET)


def test_nothing_is_written_on_stderr_while_no_handler_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter()
    with alone():
        writer.on_event("one", (), FAILED)
        writer.on_failure("one", (), 9, StoreFailed("x"))
        writer.once("x")
    assert capsys.readouterr().err == ""
    assert writer.lost == 0


def test_a_handler_of_one_logger_is_enough() -> None:
    asks = logging.getLogger(records.ASKS)
    with alone(), patch.object(asks, "handlers", [logging.StreamHandler()]):
        assert LogWriter.is_on()


def test_a_handler_of_one_logger_brings_no_other_record_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    asks = logging.getLogger(records.ASKS)
    with alone(), patch.object(asks, "handlers", [logging.StreamHandler()]):
        LogWriter().on_event("one", (), FAILED)  # of a tool
    assert capsys.readouterr().err == ""


def test_a_handler_that_raises_is_counted() -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError("the disk is full")

    writer = LogWriter()
    with alone() as logger:
        logger.addHandler(Broken())
        writer.on_event("one", (), FAILED)
        writer.once("x")
    assert writer.lost == 2


def test_a_level_above_the_record_keeps_it_out(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger=records.TOOLS):
        LogWriter().on_event("one", (), FAILED)
    assert caplog.records == []


def test_a_session_that_was_taken_over_is_a_warning_and_one_that_failed_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = LogWriter()
    writer.on_failure("one", (), 9, Fenced("secret words"))
    writer.on_failure("one", (), 9, StoreFailed("secret words"))
    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        (records.STORE, "WARNING", "one#9: taken over by another process"),
        (records.SESSIONS, "ERROR", "one#9: failed in this process: StoreFailed"),
    ]


def test_only_a_slow_commit_has_a_record(caplog: pytest.LogCaptureFixture) -> None:
    writer = LogWriter()
    batch = [Append("one", 0, 1, [FAILED]), Append("two", 0, 1, [FAILED, FAILED])]
    writer.on_commit(SLOW_COMMIT_S / 2, batch)
    assert caplog.records == []
    writer.on_commit(SLOW_COMMIT_S * 2, batch)
    assert caplog.records[0].getMessage() == "slow commit: 2.0 s for 3 events"
