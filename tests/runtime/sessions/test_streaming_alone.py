"""The readers of a stream whose board only records: the end of the past, and the items that wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.log.protocol import Stored
from callboard.runtime.sessions import streaming
from callboard.runtime.sessions.detaching import ProcessLife
from callboard.runtime.sessions.stream_items import StreamEvent, TextDelta, TextReset, ToolProgress
from callboard.runtime.sessions.stream_reader import Reader, StreamChoice
from callboard.runtime.sessions.streaming import SessionStream, StreamHub

EVERYTHING = StreamChoice("*")


def event(seq: int) -> Event:
    return Event(seq, 0, "client", "supervisor", 0, Ask("r", Json(b'"go"')))


def failed(seq: int, cause: int) -> Event:
    return Event(seq, 0, "model", "host", cause, ModelReplied(1, 2, "error"))


class Board:
    """A board and a log of some events. done: the calls that it got."""

    def __init__(self, *events: Event) -> None:
        self.events = list(events)
        self.session_id = "s"
        self.seq = len(events)
        self.done: list[object] = []
        self.watchers: list[Callable[[Event], None]] = []
        self.error: Exception | None = None
        self.fails: Exception | None = None
        self.answered: set[int] = set()
        self.gate = SimpleNamespace(may_answer=lambda seq: seq not in self.answered)
        self.hub = StreamHub(self, self)  # type: ignore[arg-type]  # a stand-in

    def flush(self) -> None:
        self.done.append("flush")
        self.seq = len(self.events)

    async def durable(self) -> None:
        self.done.append("durable")
        if self.fails is not None:
            raise self.fails

    async def read(self, session_id: str, start: int, limit: int) -> list[Stored]:
        self.done.append(start)
        rows = self.events[start - 1 :][:limit]
        return [Stored(e.seq, e.at, e.sender, e.recipient, e.cause, encode(e.body), b"") for e in rows]

    def stream(self, after: int | None, choice: StreamChoice = EVERYTHING) -> SessionStream:
        @asynccontextmanager
        async def opened() -> AsyncIterator[StreamHub]:
            self.done.append("opened")
            try:
                yield self.hub
            finally:
                self.done.append("left")

        return SessionStream(opened, after, choice, ProcessLife(0))


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())


def waiting(reader: Reader) -> list[Any]:
    """Take the items that are ready."""
    found = []
    while (item := reader.take()) is not None:
        found.append(item)
    return found


def test_a_reader_that_comes_after_the_end_gets_no_text_of_a_reply() -> None:
    board = Board(event(1))
    board.hub.on_text(1, "host", 1, 1, "hi")
    board.hub.end()
    reader = Reader(None, EVERYTHING)
    assert board.hub._attach(reader) == 1
    assert waiting(reader) == []
    assert reader.is_done
    assert (board.done, board.watchers) == ([], [])


def test_the_first_reader_reads_what_was_posted_before_it_in_the_log() -> None:
    board = Board(event(1))
    board.hub.on_text(1, "host", 1, 1, "hi")
    board.hub.on_text(3, "host", 2, 1, "there")
    board.hub.on_text(1, "host.1", 1, 1, "no")
    board.events.append(event(2))  # posted by the flush
    reader = Reader(None, StreamChoice("host"))
    assert board.hub._attach(reader) == 2
    board.hub._attach(Reader(None, EVERYTHING))
    assert board.done == ["flush"], "once for all readers"
    assert len(board.watchers) == 1
    board.watchers[0](event(2))
    assert waiting(reader) == [TextDelta("host", 1, 1, 0, "hino")], "that of the grant that it has read"


def test_a_reply_that_was_answered_before_the_first_reader_came_is_no_longer_under_way() -> None:
    answered = failed(3, cause=2)

    async def work() -> None:
        board = Board(event(1), event(2), answered)
        board.hub.on_text(2, "host", 1, 1, "hi")
        board.hub._attach(Reader(0, EVERYTHING))
        board.hub._on_event(answered)
        assert board.hub.so_far() == []

    asyncio.run(work())


def test_progress_goes_to_other_processes_also_without_a_reader() -> None:
    async def main() -> None:
        hub, sent = Board().hub, list[tuple[int, object]]()
        hub.on_progress("host", 1, 2, 7, "nobody reads it")
        hub.on_live = lambda seq, item: sent.append((seq, item))
        hub.on_progress("host", 1, 2, 7, "half")
        assert sent == [(7, ToolProgress("host", 1, 2, "half"))]

    asyncio.run(main())


def test_live_items_wait_for_their_event_and_come_right_after_it() -> None:
    board = Board(event(1))
    reader, other = Reader(None, EVERYTHING), Reader(None, StreamChoice("host.1"))
    board.hub._attach(reader)
    board.hub._attach(other)
    board.hub.on_progress("host", 4, 2, 2, "half")
    board.hub.on_progress("host", 4, 3, 1, "now")
    assert waiting(reader) == [ToolProgress("host", 4, 3, "now")]
    board.watchers[0](event(2))
    board.watchers[0](failed(3, 2))
    assert waiting(reader) == [
        StreamEvent(event(2)), ToolProgress("host", 4, 2, "half"), TextReset("host", 1, 2),
        StreamEvent(failed(3, 2)),
    ]  # fmt: skip
    assert waiting(other) == []


def test_text_is_kept_up_to_the_size_from_which_on_a_reply_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "MAX_BYTES", 4)
    board = Board(event(1))
    reader = Reader(None, EVERYTHING)
    board.hub._attach(reader)
    for text in ("abcd", "e", "f"):
        board.hub.on_text(1, "host", 1, 1, text)
    assert [(one.offset, one.text) for one in waiting(reader)] == [(0, "abcd"), (4, "e")]
    board.answered = {1}
    board.hub.on_text(1, "host", 1, 1, "late")
    assert waiting(reader) == []


def test_the_last_reader_takes_along_all_but_the_replies_under_way() -> None:
    board = Board(event(1))
    first, last = Reader(None, EVERYTHING), Reader(None, EVERYTHING)
    board.hub._attach(first)
    board.hub._attach(last)
    for grant in (1, 2):
        board.hub.on_text(grant, "host", 1, 1, "hi")
        board.hub.on_reply(grant) if grant == 2 else None
    board.hub.leave(first)
    assert (len(board.watchers), [*board.hub._held]) == (1, [2])
    board.answered = {2}
    board.hub.leave(last)
    assert (board.watchers, board.hub._held, [*board.hub._replies]) == ([], {}, [1])
    board.hub.on_reply(1)
    assert board.hub._replies == {}


@pytest.mark.parametrize("is_over", [False, True])
def test_a_store_that_fails_ends_a_reader_of_the_past_unless_the_session_has_ended(is_over: bool) -> None:
    async def work() -> None:
        board = Board(event(1))
        board.fails = StoreFailed("disk full")
        stream = board.stream(0)
        if is_over:
            durable = board.durable

            async def ends() -> None:
                board.hub.end()
                await durable()

            board.durable = ends  # type: ignore[method-assign]  # replaced on purpose
            assert [item async for item in stream] == [StreamEvent(event(1))]
        else:
            with pytest.raises(StoreFailed):
                await anext(stream)
        assert board.hub._readers == {}

    run(work)


def test_the_past_is_read_in_pages_and_only_the_last_is_read_beside_new_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "_PAGE", 2)

    async def work() -> None:
        board = Board(*(event(seq) for seq in range(1, 6)))
        stream = board.stream(0)
        seen = [await anext(stream)]
        assert board.hub._readers == {}, "five events are more than a page"
        seen += [await anext(stream) for _ in range(4)]
        assert [item.id for item in seen] == [1, 2, 3, 4, 5]
        coming = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert len(board.hub._readers) == 1
        board.watchers[0](event(6))
        assert await coming == StreamEvent(event(6))
        assert board.done == ["opened", "durable", 1, 3, 5, "flush", "durable"]
        await stream.aclose()
        assert board.done[-1] == "left"
        board.hub.end()
        board.done.clear()
        assert len([item async for item in board.stream(0)]) == 5
        assert board.done == ["opened", 1, 3, 5, "left"], "of a session that has ended, all is the last page"

    run(work)


def test_a_reader_of_one_agent_comes_back_after_the_last_event_that_it_was_sent() -> None:
    async def work() -> None:
        board = Board(event(1), failed(2, 1), event(3))
        board.hub.end()
        stream = board.stream(0, StreamChoice("host"))
        assert await anext(stream) == TextReset("host", 1, 2)
        assert stream._reader.last == 0
        assert [item async for item in stream] == [StreamEvent(failed(2, 1))]
        assert stream._reader.last == 2

    run(work)


def test_a_served_stream_joins_what_fits_and_leaves_when_its_server_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work() -> None:
        board = Board(event(1))
        stream = board.stream(1)
        served = stream.sse()
        getting = asyncio.ensure_future(anext(served))
        await asyncio.sleep(0.001)
        text = ToolProgress("host", 1, 0, "x")
        limit = len(text.to_sse())
        board.hub.on_progress("host", 1, 0, 1, "x")
        board.hub.on_progress("host", 1, 0, 1, "x")
        monkeypatch.setattr(streaming, "_CHUNK_BYTES_MAX", limit)
        assert await getting == text.to_sse()
        assert await anext(served) == text.to_sse()
        await served.aclose()
        assert board.done[-1] == "left"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    run(work)
