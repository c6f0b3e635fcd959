"""The stream of a live session, for any number of readers: durable events, live text, progress of tools.

Rules
  - A reader gets an event once it is durable, and each event once: those of the past from the log, at its own
    pace, then those to come. It is attached before the last page is read, so no event falls between.
  - Live text of a model call waits until the event of its grant was sent, and progress until that of its
    call. All text of a reply is sent before the event of the reply.
  - A new reader gets the text so far of each reply under way, with offset 0.
  - Before the event of a model call that gave no reply comes a reset: a reader that has the event has both.
  - An item is made and encoded once for all of its readers.
  - Nothing polls. Without readers a session only keeps the text of the replies under way.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Final

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.runtime.log.protocol import EventLog, event_of
from callboard.runtime.sanitize import MAX_BYTES, clean_text
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.detaching import ProcessLife
from callboard.runtime.sessions.snapshots import SnapshotBuilder
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    Snapshot,
    StreamCut,
    StreamEvent,
    TextDelta,
    ToolProgress,
    durable_items,
    snapshot_of,
)
from callboard.runtime.sessions.stream_reader import Reader, StreamChoice, keep_alive_of

_PAGE: Final = 200  # events that are read at a time, and held for a slow reader of the past
_CHUNK_BYTES_MAX: Final = 64 * 1_024  # of items that are ready, joined for one write
_SIGN: Final = b": keep-alive\n\n"


OnLive = Callable[[int, TextDelta | ToolProgress], object]


class _Reply:
    """The text of a reply under way. grant: the seq of its `CallModel`."""

    __slots__ = ("address", "attempt", "chars", "grant", "pieces", "turn")

    def __init__(self, grant: int, address: str, turn: int, attempt: int) -> None:
        self.grant = grant
        self.address = address
        self.turn = turn
        self.attempt = attempt
        self.pieces: list[str] = []
        self.chars = 0

    def delta(self, offset: int, text: str) -> TextDelta:
        """Return an item with a piece of the text."""
        return TextDelta(self.address, self.turn, self.attempt, offset, text)

    def so_far(self, chars: int) -> TextDelta:
        """Return an item with the text up to a length."""
        self.pieces = ["".join(self.pieces)]
        return self.delta(0, self.pieces[0][:chars])


class StreamHub:
    """The readers of one session, and the live text that new readers need."""

    def __init__(self, board: Board, log: EventLog) -> None:
        self.board = board
        self.is_over = False
        self._log = log
        self._readers: dict[Reader, None] = {}
        self._head = 0
        self._replies: dict[int, _Reply] = {}
        self._held: dict[int, list[AnyStreamItem]] = {}
        self._builder: SnapshotBuilder | None = None
        self._drawing = asyncio.Lock()
        self.on_live: OnLive | None = None
        """Called with each piece of text or progress, and the seq of its call, perhaps not durable yet."""

    # --- from the ports -----------------------------------------------------------

    def on_text(self, grant: int, address: str, turn: int, attempt: int, text: str) -> None:
        """Take a piece of a reply under way. Text after the reply is dropped."""
        reply = self._replies.get(grant)
        if reply is None:
            reply = _Reply(grant, address, turn, attempt)
        # A reply of this size is refused, so more of it is no use to anybody.
        if not self.board.gate.may_answer(grant) or reply.chars > MAX_BYTES:
            return
        text, offset = clean_text(text), reply.chars
        self._replies[grant] = reply
        reply.pieces.append(text)
        reply.chars += len(text)
        delta = reply.delta(offset, text)
        if self._readers:
            self._show(grant, delta)
        if self.on_live is not None:
            self.on_live(grant, delta)

    def so_far(self) -> list[tuple[int, TextDelta]]:
        """Return the text so far of each reply under way, with the seq of its grant."""
        may_answer = self.board.gate.may_answer
        return [(seq, one.so_far(one.chars)) for seq, one in self._replies.items() if may_answer(seq)]

    def on_reply(self, grant: int) -> None:
        """Note that a model call has its answer. Its text is kept for readers that wait for that event."""
        if not self._readers:
            self._replies.pop(grant, None)

    def on_progress(self, address: str, turn: int, call: int, request: int, text: str) -> None:
        """Take the progress of a tool call. request: the seq of the call."""
        if not self._readers and self.on_live is None:
            return
        progress = ToolProgress(address, turn, call, text)
        if self._readers:
            self._show(request, progress)
        if self.on_live is not None:
            self.on_live(request, progress)

    def end(self) -> None:
        """End all readers, once they have taken the items that wait for them."""
        self.is_over = True
        for reader in self._readers:
            reader.end()

    # --- from the board -----------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Send a durable event, and the items that waited for it."""
        if isinstance(event.body, ModelReplied):
            self._replies.pop(event.cause, None)
        if event.seq <= self._head:  # it was posted before the first reader came, who reads it in the log
            return
        self._head = event.seq
        for item in (*durable_items(event), *self._held.pop(event.seq, ())):
            self._send(item)

    def _show(self, after: int, item: AnyStreamItem) -> None:
        """Send an item, but not before the event of this seq."""
        if after <= self._head:
            self._send(item)
        else:
            self._held.setdefault(after, []).append(item)

    def _send(self, item: AnyStreamItem) -> None:
        for reader in self._readers:
            reader.put(item)

    # --- from the readers ---------------------------------------------------------

    def _attach(self, reader: Reader) -> int:
        """Send a reader the items from now on. Return the seq up to which the events are its own task."""
        if not self._readers and not self.is_over:
            self.board.flush()
            self._head = self.board.seq
            self.board.watchers.append(self._on_event)
        for reply in self._replies.values():
            if reply.grant <= self._head and reader.choice.shows_live(reply.address):
                reader.start(partial(reply.so_far, reply.chars))
        self._readers[reader] = None
        if self.is_over:
            reader.end()
            return self.board.seq
        return self._head

    def leave(self, reader: Reader) -> None:
        """Forget a reader. With the last one goes all that was held for readers."""
        self._readers.pop(reader, None)
        if self._readers:
            return
        if self._on_event in self.board.watchers:
            self.board.watchers.remove(self._on_event)
        self._held.clear()
        self._builder = None
        may_answer = self.board.gate.may_answer
        self._replies = {seq: one for seq, one in self._replies.items() if may_answer(seq)}

    async def _durable(self) -> None:
        """Wait until all that is posted is durable, and sent to the readers."""
        if not self.is_over:
            try:
                await self.board.durable()
            except CallboardError:  # the session's own error is raised at the end of the stream
                if not self.is_over:
                    raise

    async def _recorded(self, reader: Reader, last: int) -> AsyncGenerator[Event, None]:
        """Yield the events after `last` from the log, and attach the reader before the last page of them."""
        is_near = False
        while not is_near:
            is_near = self.board.seq - last <= _PAGE
            upto = self._attach(reader) if is_near else self.board.seq
            await self._durable()
            while last < upto and (rows := await self._log.read(self.board.session_id, last + 1, _PAGE)):
                for row in rows[: upto - last]:
                    yield event_of(self.board.session_id, row)
                last = min(rows[-1].seq, upto)

    async def _snapshot(self, reader: Reader) -> Snapshot:
        """Return a snapshot, and attach the reader for all that comes after it."""
        # One after the other: the next needs only the events since this one.
        async with self._drawing:
            builder = self._builder = self._builder or SnapshotBuilder()
            async with aclosing(self._recorded(reader, builder.seq)) as events:
                async for event in events:
                    builder.add(event)
            return snapshot_of(self.board.session_id, builder)

    async def begun(self, reader: Reader) -> AsyncGenerator[AnyStreamItem, None]:
        """Yield the past: a snapshot, or the events since the last one that the reader saw."""
        if reader.last is None:
            snapshot = await self._snapshot(reader)
            reader.last = snapshot.seq
            yield snapshot
            return
        async with aclosing(self._recorded(reader, reader.last)) as events:
            async for event in events:
                for item in durable_items(event):
                    if reader.choice.shows(item):
                        reader.last = item.id or reader.last
                        yield item

    async def large(self, seq: int) -> StreamEvent:
        """Return the item of an event that is too large to wait in memory."""
        (row,) = await self._log.read(self.board.session_id, seq, 1)
        return StreamEvent(event_of(self.board.session_id, row))


async def _items_of(
    opened: Callable[[], AbstractAsyncContextManager[StreamHub]], reader: Reader
) -> AsyncGenerator[AnyStreamItem | None, None]:
    """Yield all items of a reader; None where a sign of life is due."""
    async with opened() as hub:
        try:
            async with aclosing(hub.begun(reader)) as past:
                async for item in past:
                    yield item
                    if reader.is_left:
                        return
            while not reader.is_done:
                if (new := reader.take()) is not None:
                    yield new
                elif (seq := reader.take_large()) is not None:
                    yield await hub.large(seq)
                elif await reader.wait():
                    yield None
            if reader.is_cut:
                yield StreamCut(reader.last)
            elif hub.board.error is not None and not reader.is_left:
                raise hub.board.error
        finally:
            hub.leave(reader)


def check_after(session_id: str, after: int | None, seq: int) -> None:
    """Refuse an `after` that is not an event of a session, which ends at this seq. Raises MisuseError."""
    if after is None:
        return
    if not isinstance(after, int) or isinstance(after, bool) or after < 0:
        raise MisuseError(f"after={after!r:.80}: the seq of an event, from 0 up, or None for a snapshot")
    if after > seq:
        raise MisuseError(
            f"after={after}: session {session_id} ends at event {seq}; "
            "leave `after` out to begin with a snapshot"
        )


class SessionStream(AsyncIterator[AnyStreamItem]):
    """The items of one reader, from `Session.stream`. Iterate over it once, or over `sse()`.

    opened: holds the session in memory while its hub is read. life: ends what `sse()` serves.
    """

    def __init__(
        self,
        opened: Callable[[], AbstractAsyncContextManager[StreamHub]],
        after: int | None,
        choice: StreamChoice,
        life: ProcessLife,
    ) -> None:
        self._life = life
        self._reader = Reader(after, choice)
        # The generator holds no reference to this object: a stream that is dropped ends at once, not when the
        # garbage collector finds it.
        self._items = _items_of(opened, self._reader)

    async def __anext__(self) -> AnyStreamItem:
        while (item := await anext(self._items)) is None:
            pass
        return item

    async def aclose(self) -> None:
        """Leave the stream. A stream that is dropped leaves by itself."""
        await self._items.aclose()

    async def served(self) -> AsyncGenerator[AnyStreamItem | None, None]:
        """Yield the items for a client of a web server; None where a sign of life is due.

        It ends once `Runtime.stopping()` was called, so that the server can stop.
        """
        timer, sign = keep_alive_of(asyncio.get_running_loop()), self._reader.give_sign
        timer.add(sign)
        try:
            with self._life.serving(self._reader.leave):
                async for item in self._items:
                    yield item
        finally:
            timer.remove(sign)
            await self.aclose()

    async def sse(self) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events, ready to be written; items that are ready together form one chunk.

        A comment keeps quiet connections open. Give it to a streaming response of a web framework, with the
        media type `text/event-stream`. It ends once `Runtime.stopping()` was called, so that a server can
        stop; browsers come back with the id of their last event.
        """
        async with aclosing(self.served()) as items:
            async for item in items:
                yield _SIGN if item is None else self._chunk(item)

    def _chunk(self, item: AnyStreamItem) -> bytes:
        """Join an item with those that are ready."""
        frame = item.to_sse()
        frames, size = [frame], len(frame)
        while size < _CHUNK_BYTES_MAX and (following := self._reader.take()) is not None:
            frame = following.to_sse()
            frames.append(frame)
            size += len(frame)
        return b"".join(frames)
