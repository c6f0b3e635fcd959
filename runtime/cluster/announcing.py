"""The owner's side of followed sessions: it notifies their followers of new events, live text and progress.

Rules
  - Only followed sessions are announced, and only after their events are committed.
  - All that has happened in `EVERY_S` goes into one statement, on a connection that does nothing else.
  - News that could not be sent are sent later. Text that could not be sent is dropped, as is text beyond
    `TEXT_CHARS_MAX`: nothing waits for a follower, and followers see the gap by the offset of the next piece.
  - A follower that is new to this owner is greeted: the news of its session, and the text so far.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.errors import StoreError
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.control.server import Controlled
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.address import Address
from callboard.runtime.log.postgres.arrays import texts
from callboard.runtime.log.postgres.followers import ALL_TEXT, HOST_TEXT, NOTIFY, Followed
from callboard.runtime.log.postgres.leases import LeaseTables
from callboard.runtime.log.postgres.link import Cut, Link
from callboard.runtime.log.postgres.notices import Piece, ProgressPiece, TextPiece, notices
from callboard.runtime.log.postgres.thread import Worker
from callboard.runtime.log.protocol import Append
from callboard.runtime.sessions.session_sleep import LiveParts
from callboard.runtime.sessions.stream_items import TextDelta, ToolProgress

EVERY_S: Final = 0.05  # between two statements
AGAIN_S: Final = 1.0  # after one that failed
LOOK_MS: Final = 2_500  # between two readings of the followers while no new one comes
TEXT_CHARS_MAX: Final = 1 << 20  # of text that waits to be sent

logger: Final = logging.getLogger("callboard.worker")


class Seen(NamedTuple):
    """The answer of a look at the tables. owned: the owner and its sessions.

    followed: None if all is as before.
    """

    owned: tuple[int, frozenset[str]]
    newest: int
    followed: list[Followed] | None


class _Text(NamedTuple):
    """Pieces that follow each other, for those who followed when the first came; or progress of a tool."""

    rows: tuple[Followed, ...]
    first: Piece
    texts: list[str]


class Announcer:
    """Notifies the followers of the sessions that a runtime owns. It connects when that is needed."""

    def __init__(self, runtime: Controlled, address: Address) -> None:
        self._runtime, self._address = runtime, address
        self._cipher: Cipher | None = None
        self._followed: dict[str, tuple[Followed, ...]] = {}
        self._newest, self._looked_ms = 0, 0
        self._owned: tuple[int, frozenset[str]] = (0, frozenset())
        self._parts: dict[str, LiveParts] = {}
        self._news: set[Followed] = set()
        self._texts: list[_Text] = []
        self._open: dict[tuple[str, int], _Text] = {}
        self._chars = 0
        self._link: Link | None = None
        self._thread: Worker | None = None
        self._task: asyncio.Task[None] | None = None

    # --- followers --------------------------------------------------------------------

    def look(self, owner: int, sessions: Iterable[str]) -> Callable[[LeaseTables], Seen]:
        """Return a function that reads the followers of an owner's sessions, unless they are as before."""
        owned, newest = (owner, frozenset(sessions)), self._newest
        is_fresh = owned == self._owned and monotonic_ms() - self._looked_ms < LOOK_MS

        def look(tables: LeaseTables) -> Seen:
            found = tables.followers.newest()
            if found == newest and (is_fresh or not found):
                return Seen(owned, found, None)
            return Seen(owned, found, tables.followers.of_owner(owner) if found else [])

        return look

    def take(self, seen: Seen, cipher: Cipher | None) -> None:
        """Take the answer of a look: greet new followers, and forget those that have left."""
        self._cipher = cipher
        before = {row for rows in self._followed.values() for row in rows}
        if seen.followed is not None:
            self._owned, self._newest, self._looked_ms = seen.owned, seen.newest, monotonic_ms()
            found: defaultdict[str, list[Followed]] = defaultdict(list)
            for row in seen.followed:
                found[row.session].append(row)
            self._followed = {name: tuple(rows) for name, rows in found.items()}
        attached = self._attach()
        for name, rows in self._followed.items():
            if new := rows if name in attached else tuple(row for row in rows if row not in before):
                self._greet(name, new)

    def _attach(self) -> set[str]:
        """Take the text of the sessions whose text is followed. Return those that began, or woke, since."""
        if not self._followed and not self._parts:
            return set()
        live, before, self._parts = self._runtime.live_sessions, self._parts, {}
        for name, rows in self._followed.items():
            parts = live[name]._live if name in live and any(row.wish for row in rows) else None
            if parts is not None:
                self._parts[name] = parts
        begun = {name for name, parts in self._parts.items() if before.get(name) is not parts}
        for name, parts in before.items():
            if self._parts.get(name) is not parts:
                parts.hub.on_live = None
        for name in begun:
            self._listen_to(name, self._parts[name])
        return begun

    def _listen_to(self, name: str, parts: LiveParts) -> None:
        epoch = parts.board.epoch

        def on_live(grant: int, item: TextDelta | ToolProgress) -> None:
            key = (name, grant)
            if (text := self._open.get(key)) is not None:
                if self._has_room(item.text):
                    text.texts.append(item.text)
                else:
                    del self._open[key]  # its next piece is behind a gap
                return
            text = self._add(self._followed.get(name, ()), epoch, grant, item)
            if text is not None and isinstance(item, TextDelta):  # each text of progress is whole
                self._open[key] = text

        parts.hub.on_live = on_live

    def _greet(self, name: str, rows: tuple[Followed, ...]) -> None:
        """Send news of a session to some followers, and the text so far."""
        self._news.update(rows)
        for key in [key for key in self._open if key[0] == name]:
            del self._open[key]  # the next piece is for them, too
        if (parts := self._parts.get(name)) is not None:
            for grant, delta in parts.hub.so_far():
                self._add(rows, parts.board.epoch, grant, delta)
        self._schedule()

    # --- notifications ----------------------------------------------------------------

    def on_stored(self, batch: Sequence[Append]) -> None:
        """Send news of the sessions of a batch that the log has answered."""
        if not self._followed:
            return
        for part in batch:
            if rows := self._followed.get(part.session_id):
                self._news.update(rows)
                self._schedule()

    def _add(
        self, rows: tuple[Followed, ...], epoch: int, grant: int, item: TextDelta | ToolProgress
    ) -> _Text | None:
        """Add text or progress for some followers, unless none wants it, or too much waits."""
        wish = HOST_TEXT if item.address == HOST else ALL_TEXT
        rows = tuple(row for row in rows if row.wish >= wish)
        if not rows or not self._has_room(item.text):
            return None
        first: Piece
        if isinstance(item, TextDelta):
            first = TextPiece(epoch, grant, item.address, item.turn, item.attempt, item.offset, "")
        else:
            first = ProgressPiece(epoch, grant, item.address, item.turn, item.call, "")
        text = _Text(rows, first, [item.text])
        self._texts.append(text)
        self._schedule()
        return text

    def _has_room(self, text: str) -> bool:
        """Count text that is to wait, unless too much waits."""
        if self._chars + len(text) > TEXT_CHARS_MAX:
            return False
        self._chars += len(text)
        return True

    def _schedule(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send(), name="callboard notifications")

    async def _send(self) -> None:
        """Send what waits, until nothing does."""
        try:
            while self._news or self._texts:
                news, self._news = self._news, set()
                sent, self._texts, self._chars = self._texts, [], 0
                self._open.clear()
                pause_s = EVERY_S
                try:
                    await self._thread_of().run(lambda: self._notify(news, sent))  # noqa: B023  # runs now
                except (Cut, StoreError) as error:
                    logger.debug("followers could not be notified: %s", failure_text(error))
                    self._news |= news
                    pause_s = AGAIN_S
                await asyncio.sleep(pause_s)
        finally:
            self._task = None

    def _thread_of(self) -> Worker:
        if self._thread is None:
            self._link, self._thread = Link(self._address), Worker("callboard notify")
        return self._thread

    def _notify(self, news: set[Followed], sent: Sequence[_Text]) -> None:
        """Send one statement, on the thread of the connection."""
        channels, payloads = [], []
        for channel, payload in _payloads(news, sent, self._cipher):
            channels.append(channel)
            payloads.append(payload)
        assert self._link is not None
        self._link.execute(NOTIFY, (texts(channels), texts(payloads)), "notifying followers")

    async def aclose(self) -> None:
        """Send nothing more, and close the connection."""
        for parts in self._parts.values():
            parts.hub.on_live = None
        self._followed, self._parts = {}, {}
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._thread is not None and self._link is not None:
            self._link.close()  # in case it waits for the server
            self._thread.stop(self._link.close)
            self._thread = self._link = None


def _payloads(news: set[Followed], sent: Sequence[_Text], cipher: Cipher | None) -> Iterator[tuple[str, str]]:
    """Yield each notification with its channel."""
    by_channel: defaultdict[str, tuple[list[int], list[tuple[int, str, Piece]]]]
    by_channel = defaultdict(lambda: ([], []))
    for row in news:
        by_channel[row.channel][0].append(row.number)
    for text in sent:
        piece = replace(text.first, text="".join(text.texts))
        for row in text.rows:
            by_channel[row.channel][1].append((row.number, row.session, piece))
    for channel, (numbers, pieces) in by_channel.items():
        for payload in notices(numbers, pieces, cipher):
            yield channel, payload
