"""Live text and progress of a session that another process runs: as they arrive, and as a reader sees them.

Rules
  - Text is shown after the event that granted its model call, and before the event of its reply.
  - Text that does not follow the text before it leaves a gap, of which each reader is told. Text with offset
    0 starts its reply again: an owner sends it so to a client that has begun to follow.
  - As its event comes, the end of a reply of which a reader has seen the beginning comes from the event.
  - Progress of a tool is shown after the event of its call, and before the event of its result. What comes
    later is dropped, and what does not arrive is not missed: each text of progress replaces the one before.
  - Text under an earlier epoch than the newest known one is dropped: its sender has lost the session.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned
from callboard.runtime.log.postgres.notices import Piece, ProgressPiece, TextPiece
from callboard.runtime.sanitize import MAX_BYTES
from callboard.runtime.sessions.snapshots import text_of_reply
from callboard.runtime.sessions.stream_items import (
    StreamEvent,
    TextDelta,
    TextLost,
    TextReset,
    ToolProgress,
    durable_items,
)
from callboard.runtime.sessions.stream_reader import StreamChoice

ENDED_MAX: Final = 256  # calls that have ended, and are remembered for text or progress that comes late
PROGRESS_MAX: Final = 256  # texts of progress that are kept for the readers of a session


LiveItem: TypeAlias = TextDelta | TextLost | ToolProgress


class ArrivedText:
    """The text of one reply that arrived, without the text before its last gap. start, end: its offsets."""

    __slots__ = ("_pieces", "end", "first", "start")

    def __init__(self, first: TextPiece) -> None:
        self.first = first
        self.start = self.end = first.offset
        self._pieces: list[str] = []

    def add(self, piece: TextPiece) -> None:
        """Add a piece: the part of it that is new, or all of it behind a gap."""
        if piece.offset == 0 or piece.offset > self.end:
            self.start = self.end = piece.offset
            self._pieces = []
        if self.end - self.start > MAX_BYTES:  # no reply is so long
            return
        new = piece.text[self.end - piece.offset :] if piece.offset >= self.start else ""
        self._pieces.append(new)
        self.end += len(new)

    def after(self, offset: int) -> str:
        """Return the text from an offset on."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0][max(0, offset - self.start) :]


class LiveText:
    """The live text of one session, for all readers of a client.

    epoch: the newest one that is known. progress: the latest texts, each with its number from 1.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self.replies: dict[int, ArrivedText] = {}
        self.progress: deque[tuple[int, ProgressPiece]] = deque(maxlen=PROGRESS_MAX)
        self.count = 0  # of the texts of progress that have arrived
        self._ended: deque[int] = deque(maxlen=ENDED_MAX)
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, piece: Piece) -> None:
        """Add a piece that has arrived, and wake the readers."""
        self.note_epoch(piece.epoch)
        if piece.epoch < self.epoch or piece.grant in self._ended or not piece.text:
            return
        if isinstance(piece, ProgressPiece):
            self.count += 1
            self.progress.append((self.count, piece))
        elif (reply := self.replies.get(piece.grant)) is None:
            self.replies[piece.grant] = reply = ArrivedText(piece)
            reply.add(piece)
        else:
            reply.add(piece)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def note_epoch(self, epoch: int) -> None:
        """Drop the text of earlier owners of the session."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.replies.clear()
            self.progress.clear()

    def end(self, grant: int) -> None:
        """Drop the text of a reply that has its event."""
        self.replies.pop(grant, None)
        if grant not in self._ended:
            self._ended.append(grant)

    def arrival(self) -> "asyncio.Future[None]":
        """Return a future that is done once more text has arrived."""
        found: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(found)
        return found

    def leave(self, arrival: "asyncio.Future[None]") -> None:
        """Wait for the next text no longer."""
        if arrival in self._waiting:
            self._waiting.remove(arrival)


class TextReader:
    """The items of one reader: those of events, with the live text where it belongs. last: its last event."""

    def __init__(self, live: LiveText, choice: StreamChoice, last: int) -> None:
        self.last = last
        self._live, self._choice = live, choice
        self._shown: dict[int, int] = {}  # characters of each reply under way, by the seq of its grant
        self._address: dict[int, str] = {}
        self._seen: dict[int, ArrivedText] = {}  # another reader may have ended them
        self._began = last
        self._progress: list[ProgressPiece] = []  # whose call it has not read yet
        self._counted = live.count
        self._returned: deque[int] = deque(maxlen=ENDED_MAX)  # calls whose results it has read

    def unknown(self) -> list[int]:
        """Return the grants before the first event that it has read of which text has arrived."""
        return [grant for grant in self._live.replies if grant <= self._began and grant not in self._shown]

    def learn(self, grant: int, address: str) -> None:
        """Take a model call that is under way. address: its agent."""
        self._shown.setdefault(grant, 0)
        self._address[grant] = address

    def forget(self, grant: int) -> None:
        """Drop the text of something that is no model call under way."""
        self._live.end(grant)
        self._seen.pop(grant, None)
        self._shown.pop(grant, None)
        self._address.pop(grant, None)

    def items_of(self, event: Event) -> Iterator[LiveItem | StreamEvent | TextReset]:
        """Yield the items of the next event."""
        body = event.body
        if isinstance(body, CallModel):
            self.learn(event.seq, body.agent)
        elif isinstance(body, ModelReplied):
            yield from self._last_text(event.cause, body)
            self.forget(event.cause)
        elif isinstance(body, ToolReturned):
            yield from self._new_progress()
            self._returned.append(event.cause)
        self.last = event.seq
        for item in durable_items(event):
            if self._choice.shows(item):
                yield item

    def arrived(self) -> Iterator[LiveItem]:
        """Yield the live text and the progress that have arrived since the last call."""
        for grant in [*self._live.replies]:
            yield from self._text(grant)
        yield from self._new_progress()

    def _new_progress(self) -> Iterator[ToolProgress]:
        found = [piece for number, piece in self._live.progress if number > self._counted]
        waiting, self._progress, self._counted = [*self._progress, *found], [], self._live.count
        for piece in waiting:
            if piece.grant > self.last:
                self._progress.append(piece)
            elif piece.grant not in self._returned and self._choice.shows_live(piece.address):
                yield ToolProgress(piece.address, piece.turn, piece.call, piece.text)

    def _text(self, grant: int) -> Iterator[TextDelta | TextLost]:
        reply, shown = self._live.replies.get(grant), self._shown.get(grant)
        if reply is None or shown is None or reply.end <= shown:
            return
        first = reply.first
        if first.address != self._address[grant] or not self._choice.shows_live(first.address):
            return
        if reply.start > shown:
            lost = reply.start - shown
            yield TextLost(first.address, first.turn, first.attempt, shown, lost)
            shown = reply.start
        self._shown[grant], self._seen[grant] = reply.end, reply
        yield TextDelta(first.address, first.turn, first.attempt, shown, reply.after(shown))

    def _last_text(self, grant: int, body: ModelReplied) -> Iterator[TextDelta | TextLost]:
        """Yield the rest of a reply that has ended, if some of it was shown."""
        yield from self._text(grant)
        reply, shown = self._seen.get(grant), self._shown.get(grant)
        if reply is None or not shown or body.status != "ok":
            return
        whole = text_of_reply(body.content) or ""
        if len(whole) > shown and whole.startswith(reply.after(0), reply.start):
            first = reply.first
            yield TextDelta(first.address, first.turn, first.attempt, shown, whole[shown:])
