"""A log as a client follows it: the events of sessions that other processes write, and the results in them.

The truth is the log: it is asked where a session stands, soon after its last events and then less often.
Owners send notifications of new events, which only say when to ask. New events are read by their seq, so none
is missed and none comes twice, whoever writes them.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, AskEnded, TellEnded
from callboard.actors.protocol.errors import SessionNotFound, StoreFailed, TellRefused
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.runtime.cluster.interest import Interest
from callboard.runtime.cluster.live_text import LiveText, TextReader
from callboard.runtime.cluster.standings import AT_ONCE_S, PAUSE_S, longer
from callboard.runtime.log.postgres.followers import ALL_TEXT, EVENTS, HOST_TEXT
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.protocol import Stored, event_of
from callboard.runtime.sessions.outcomes import Outcome, past_outcome
from callboard.runtime.sessions.session_pages import PAGE
from callboard.runtime.sessions.snapshots import SnapshotBuilder
from callboard.runtime.sessions.stream_items import (
    Snapshot,
    StreamEvent,
    TextDelta,
    TextLost,
    TextReset,
    ToolProgress,
    snapshot_of,
)
from callboard.runtime.sessions.stream_reader import StreamChoice
from callboard.runtime.sessions.streaming import check_after

ClientItem: TypeAlias = Snapshot | StreamEvent | TextDelta | TextLost | TextReset | ToolProgress
"""The items of `Client.stream`."""


class FollowedLog:
    """Reads what others write. is_shared: says of a session without events whether one may still begin."""

    def __init__(
        self, log: PostgresLog, interest: Interest, is_shared: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._log, self._interest = log, interest
        self._is_shared = is_shared

    async def stream(
        self, session_id: str, after: int | None, choice: StreamChoice
    ) -> AsyncGenerator[ClientItem, None]:
        """Yield a snapshot, or the items after a seq, and then those of new events. See `Client.stream`."""
        wish = HOST_TEXT if choice.of in (None, HOST) else ALL_TEXT
        with self._interest.following(session_id, wish) as live:
            standing = await self._interest.standings.other_than(session_id, -1)
            if standing is None:
                await self.page(session_id, 1, 1)
            head = 0 if standing is None else standing.head
            check_after(session_id, after, head)
            if after is None:
                builder = SnapshotBuilder()
                while builder.seq < head and (page := await self.page(session_id, builder.seq + 1)):
                    for row in page:
                        builder.add(event_of(session_id, row))
                yield snapshot_of(session_id, builder)
                after = builder.seq
            async with aclosing(self._items(session_id, TextReader(live, choice, after), live)) as items:
                async for item in items:
                    yield item

    async def _items(
        self, session_id: str, reader: TextReader, live: LiveText
    ) -> AsyncGenerator[ClientItem, None]:
        """Yield the items after the last event of a reader, and live text as it arrives."""
        pages = self._pages(session_id, reader.last + 1, live)
        page = asyncio.ensure_future(anext(pages, None))
        try:
            while True:
                arrival = live.arrival()
                for grant in reader.unknown():
                    await self._look_up(session_id, grant, reader)
                for live_item in reader.arrived():
                    yield live_item
                await asyncio.wait((page, arrival), return_when=asyncio.FIRST_COMPLETED)
                live.leave(arrival)
                if page.done():
                    if (events := page.result()) is None:
                        return
                    for event in events:
                        for item in reader.items_of(event):
                            yield item
                    page = asyncio.ensure_future(anext(pages, None))
        finally:
            page.cancel()
            await asyncio.gather(page, return_exceptions=True)
            await pages.aclose()

    async def _look_up(self, session_id: str, grant: int, reader: TextReader) -> None:
        """Find out whether an event before those that were read grants a model call that is under way."""
        start, address = grant, ""
        while start <= reader.last and (page := await self.page(session_id, start)):
            for row in page:
                event = event_of(session_id, row)
                if row.seq == grant and isinstance(event.body, CallModel):
                    address = event.body.agent
                if row.seq <= reader.last and event.cause == grant and isinstance(event.body, ModelReplied):
                    address = ""
            start = page[-1].seq + 1
        if address:
            reader.learn(grant, address)
        else:
            reader.forget(grant)

    async def events(self, session_id: str, start: int) -> AsyncGenerator[Event, None]:
        """Yield all events from a seq on, new ones as they are stored, until the session is closed.

        Waits for the first event of a session that no worker has opened yet.

        Raises SessionNotFound, StoreFailed if the server has lost events that were read.
        """
        with self._interest.following(session_id, EVENTS) as live:
            async with aclosing(self._pages(session_id, start, live)) as pages:
                async for page in pages:
                    for event in page:
                        yield event

    async def _pages(
        self, session_id: str, start: int, live: LiveText
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the events of `events`, as many at a time as are there."""
        standings = self._interest.standings
        pause, seen = AT_ONCE_S, 0
        while True:
            standing = await standings.other_than(session_id, start - 1, pause)
            pause = longer(pause, self._interest.pause_max_s(session_id))
            if standing is not None:
                live.note_epoch(standing.epoch)
            if standing is not None and standing.head < seen:
                raise StoreFailed(
                    f"session {session_id} ends at event {standing.head}, but event {seen} was read before: "
                    "its server has lost events, as in a failover to a replica without them; read it again"
                )
            if standing is not None and standing.is_closed and standing.head < start:
                return
            if standing is None or standing.head >= start:
                page = await self.page(session_id, start)
                if page:
                    seen, start = page[-1].seq, page[-1].seq + 1
                    yield [event_of(session_id, row) for row in page]
                    pause = AT_ONCE_S if len(page) == PAGE else PAUSE_S

    async def page(self, session_id: str, start: int, limit: int = PAGE) -> Sequence[Stored]:
        """Return some events from a seq on; none of a session that waits for the worker that opens it."""
        try:
            return await self._log.read(session_id, start, limit)
        except SessionNotFound:
            if await self._is_shared(session_id):
                return ()
            raise

    async def heard(self, session_id: str, seq: int, name: str) -> int:
        """Wait until an agent reads words, and return its turn. Raises TellRefused."""
        async for event in self.events(session_id, seq):
            body = event.body
            if isinstance(body, TellEnded) and body.request_id == name:
                if body.status == "refused":
                    raise TellRefused(f"the message was not read: {body.detail}")
                return body.turn
        raise TellRefused(f"the message was not read: session {session_id} has ended")

    async def running_at(self, session_id: str, seq: int) -> str:
        """Return the request id of the ask that ran at an event; empty if none did."""
        running, start = "", 1
        while start <= seq and (page := await self.page(session_id, start, min(PAGE, seq + 1 - start))):
            for row in page:
                body = event_of(session_id, row).body
                if isinstance(body, Ask | AskEnded):
                    running = body.request_id if isinstance(body, Ask) else ""
            start += len(page)
        return running

    async def ended(self, session_id: str, seq: int, request_id: str) -> Outcome[Any]:
        """Wait for the end of an ask, which is behind this event."""
        async for event in self.events(session_id, max(1, seq)):
            body = event.body
            if isinstance(body, AskEnded) and body.request_id == request_id:
                found = await past_outcome(self._log, session_id, request_id, None)
                assert found is not None
                return found
        raise SessionNotFound(f"session {session_id} has ended without an outcome of {request_id!r:.100}")
