"""One reader of a session's stream: the items that wait for it.

The items of a session that one reader of its stream gets.

    of=None        all events, and live items of the host: sub-agents are silent
    of="host.2"    the events and live items of this agent alone
    of="*"         all events, and live items of all agents

Live items are text, resets and progress.

Signs of life for readers that hear nothing: proxies close connections that are silent for long.
"""

import asyncio
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from callboard.actors.protocol.addresses import HOST, names_agent
from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel
from callboard.runtime.scheduling.rounds import Rounds
from callboard.runtime.sessions.stream_items import (
    AnyStreamItem,
    StreamEvent,
    TextDelta,
    TextLost,
    TextReset,
    ToolProgress,
)

ALL: Final = "*"


class StreamChoice(NamedTuple):
    """The choice of one reader. of: an address, `*`, or None."""

    of: str | None = None

    def shows(self, item: AnyStreamItem) -> bool:
        """Return True if the reader gets this item."""
        match item:
            case StreamEvent(event=event):
                return self.of in (None, ALL) or _is_about(event, self.of)
            case (
                TextDelta(address=address)
                | TextReset(address=address)
                | TextLost(address=address)
                | ToolProgress(address=address)
            ):
                return self.shows_live(address)
            case _:
                return True

    def shows_live(self, address: str) -> bool:
        """Return True if the reader gets the text and the progress of this agent."""
        return self.of == ALL or address == (self.of or HOST)


def choice_of(of: str | None) -> StreamChoice:
    """Return the choice of a caller. Raises MisuseError for a text that is not an address."""
    if of is not None and of != ALL and not (isinstance(of, str) and names_agent(of)):
        raise MisuseError(f"of={of!r:.80}: the address of an agent, such as 'host.2', or '*' for all agents")
    return StreamChoice(of)


def _is_about(event: Event, address: str | None) -> bool:
    """Return True for an event that an agent posted or was sent, or that grants it a model call."""
    body = event.body
    return address in (event.sender, event.recipient) or (
        isinstance(body, CallModel) and body.agent == address
    )


QUEUE_BYTES_MAX: Final = 960 * 1_024
"""Bytes of encoded items that wait for one reader. With the chunk that it is writing, that makes 1 MiB."""

LARGE_BYTES: Final = 64 * 1_024
"""Encoded bytes from which on an event does not wait in memory: it is read from the log in its turn."""

_ITEM_BYTES: Final = 64  # counted for each item beside its encoded bytes


class Reader:
    """The queue of one reader. It never holds up its session.

    last: the seq up to which it has all of its events; None before its snapshot. choice: of its items.
    is_over: nothing more comes after the items that wait. is_cut: it was too slow, and its items are dropped.
    is_due: a sign of life is due. is_left: its client is sent to another process, and takes no more.
    """

    def __init__(self, last: int | None, choice: StreamChoice) -> None:
        self.last = last
        self.choice = choice
        self.is_over = False
        self.is_cut = False
        self.is_due = False
        self.is_left = False
        self._starts: deque[Callable[[], TextDelta]] = deque()
        self._items: deque[AnyStreamItem | int] = deque()
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None

    def start(self, so_far: Callable[[], TextDelta]) -> None:
        """Add the text so far of a reply under way, made in its turn: a thousand replies may be under way."""
        self._starts.append(so_far)

    def put(self, item: AnyStreamItem) -> None:
        """Add an item that it chose, or cut it if too much waits already. An item alone always fits."""
        if not self.choice.shows(item):
            return
        seq = item.id if len(item.to_sse()) > LARGE_BYTES else None
        size = _size_of(item) if seq is None else _ITEM_BYTES
        if self._items and self._bytes + size > QUEUE_BYTES_MAX:
            self._items.clear()
            self._starts.clear()
            self.is_cut = True
            self.end()
        elif not self.is_over:
            self._items.append(item if seq is None else seq)
            self._bytes += size
            self._wake()

    def take(self) -> AnyStreamItem | None:
        """Take the next item; None if the queue is empty, or if the item must be read from the log."""
        if self._starts:
            return self._starts.popleft()()
        if not self._items or isinstance(item := self._items[0], int):
            return None
        self._items.popleft()
        self._bytes -= _size_of(item)
        if item.id is not None:
            self.last = item.id
        return item

    def take_large(self) -> int | None:
        """Take the seq of the next event, if it must be read from the log."""
        if not self._items or not isinstance(seq := self._items[0], int):
            return None
        self._items.popleft()
        self._bytes -= _ITEM_BYTES
        self.last = seq
        return seq

    def end(self) -> None:
        """Let the reader end after the items that wait."""
        self.is_over = True
        self._wake()

    def leave(self) -> None:
        """Let the reader end now. Its client comes back with the seq of its last event."""
        self.is_left = True
        self._wake()

    def give_sign(self) -> None:
        """Wake the reader for a sign of life."""
        self.is_due = True
        self._wake()

    @property
    def is_done(self) -> bool:
        """Return True if it has taken all items that it will ever get."""
        return self.is_left or (self.is_over and not self._items and not self._starts)

    async def wait(self) -> bool:
        """Wait for an item, the end, or a sign of life. Return True if a sign of life is due."""
        if not (self._items or self.is_over or self.is_due or self.is_left):
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        was_due, self.is_due = self.is_due, False
        return was_due

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _size_of(item: AnyStreamItem) -> int:
    return len(item.to_sse()) + _ITEM_BYTES


KEEP_ALIVE_S: Final = 15.0  # seconds between two signs; the usual proxy waits 60

_known: dict[AbstractEventLoop, Rounds] = {}


def keep_alive_of(loop: AbstractEventLoop) -> Rounds:
    """Return the one timer for all readers of a loop."""
    found = _known.get(loop)
    if found is None:
        for closed in [known for known in _known if known.is_closed()]:
            del _known[closed]
        found = _known[loop] = Rounds(loop, KEEP_ALIVE_S)
    return found
