"""Exports that are written to a log: the bytes come back, in batches, and none of another callboard."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.errors import CorruptLog, SessionExists
from callboard.actors.protocol.messages import AnyMessage
from callboard.replay.exports import importing
from callboard.replay.exports.importing import Importing
from callboard.replay.exports.jsonl import ExportReader
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Head
from tests.effort import effort
from tests.replay.exports.kit import bodies, events_of, exported, log_of


def quiet(name: str, done: int, total: int) -> None:
    """Show no progress."""


async def imported(content: bytes, key: bytes | None = None) -> MemoryLog:
    log = MemoryLog(key)
    await log.open()
    with ExportReader(content.splitlines(keepends=True), key, "file") as reader:
        await Importing(log, quiet).run(reader.items())
    return log


@given(st.lists(bodies(), min_size=1, max_size=6), st.sampled_from([None, b"a secret key"]))
@settings(max_examples=effort(40, 500))
def test_an_export_of_an_import_is_the_export_to_the_byte(
    messages: list[AnyMessage], key: bytes | None
) -> None:
    content = exported(log_of(events_of(messages), key), key)
    assert exported(asyncio.run(imported(content, key)), key) == content


def test_a_log_that_writes_other_bytes_ends_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    content = exported(log_of(events_of([Cancel("one")])))
    log = MemoryLog()

    async def append(batch: object) -> list[Head]:
        return [Head(1, b"another digest")]

    async def main() -> None:
        await log.open()
        monkeypatch.setattr(log, "append", append)
        with ExportReader(content.splitlines(keepends=True), None, "f") as reader:
            await Importing(log, quiet).run(reader.items())

    with pytest.raises(CorruptLog, match="with other bytes"):
        asyncio.run(main())
    assert not log._sessions


def test_a_session_is_written_in_batches_and_its_progress_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "_BATCH_EVENTS", 2)
    content = exported(log_of(events_of([Cancel(str(n)) for n in range(5)])))
    seen: list[tuple[str, int, int]] = []

    async def main() -> None:
        log = MemoryLog()
        await log.open()
        one = Importing(log, lambda *progress: seen.append(progress))
        lines = content.splitlines(keepends=True)
        with ExportReader(lines, None, "f") as reader:
            assert await one.run(reader.items()) == (1, 5)
        with ExportReader(lines, None, "f") as reader, pytest.raises(SessionExists):
            await Importing(log, quiet).run(reader.items())
        assert (await log.head("s")).seq == 5

    asyncio.run(main())
    assert seen == [("s", 2, 5), ("s", 4, 5), ("s", 5, 5)]
