"""The rows and events of one session as sequences that read the log when they are used.

Reading from the first event on checks the hash chain on the way; reading in the middle does not.

The kind of a stored message, and the agent it is about, without decoding the whole message.

The title of a session: the one it was given, else the beginning of its first prompt.

A store writes the title with the first ask. Sessions of earlier versions that were opened without a prompt
have none in their row, so theirs is read from the log where it is shown.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, TypeVar, overload

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Ask, SessionOpened
from callboard.actors.protocol.codec import UnreadableBody, decode_all
from callboard.actors.protocol.errors import CallboardError, CorruptLog, UnknownName
from callboard.actors.protocol.events import Event
from callboard.runtime.log.hash_chain import PAGE_EVENTS, PageSizes
from callboard.runtime.log.protocol import (
    Head,
    LogReader,
    Sealed,
    Stored,
    check_format,
    check_rules,
    event_of,
)
from callboard.runtime.log.session_rows import SessionRow, title_of

T = TypeVar("T")
# A step looks at the events around its own. 64 rows cost 0.2 ms to read, one costs 0.14 ms.
_CHUNK_EVENTS: Final = 64
START: Final = len(b'{"type":"')
"""The place at which the kind begins in a body."""


@dataclass(eq=False, repr=False)
class Source:
    """One session of a log, up to a head that was read once.

    known: a head that was acknowledged earlier; the log must still contain it. key: the digest key, if it is
    not the reader's own. is_owner: the reader is closed with this object, or when it is collected.
    """

    reader: LogReader
    session_id: str
    head: Head
    known: Head | None = None
    key: bytes | None = None
    is_owner: bool = False

    @classmethod
    def upto(cls, reader: LogReader, session_id: str, seq: int | None = None) -> "Source":
        """Return a session as it was after event `seq`; without it, as it is now. Raises UnknownName."""
        end = reader.head(session_id)
        return cls(reader, session_id, end if seq is None else head_at(reader, session_id, end, seq))

    def __post_init__(self) -> None:
        self._close = weakref.finalize(self, self.reader.close) if self.is_owner else None

    def close(self) -> None:
        """Close the reader, if it belongs to this object. Safe to call twice."""
        if self._close is not None:
            self._close()

    def sealed_pages(self, upto: int | None = None) -> Iterator[list[Sealed]]:
        """Yield the rows 1 to `upto` as their digests see them, checked. Raises CorruptLog."""
        last = self.head.seq if upto is None else min(upto, self.head.seq)
        return self.reader.checked_pages(self.session_id, last, self.key, self.known)

    def check(self) -> None:
        """Check every digest. Raises CorruptLog at the first event that is not as it was written."""
        for _ in self.sealed_pages():
            pass

    def between(self, first: int, last: int) -> Iterator[Stored]:
        """Yield the rows `first` to `last`, not checked. Raises CorruptLog where one is missing."""
        sizes = PageSizes(PAGE_EVENTS)
        while first <= last:
            page = self.reader.events(self.session_id, first, min(sizes.events, last - first + 1))
            sizes.note(page)
            for row in page:
                if row.seq != first:
                    raise _gap(self.session_id, first, row.seq)
                first += 1
                yield row
            if not page:
                raise _gap(self.session_id, first)

    def of_actor(self, address: str, first: int, last: int) -> Iterator[Stored]:
        """Yield the rows between `first` and `last` that this actor received or posted, not checked."""
        sizes = PageSizes(
            PAGE_EVENTS
        )  # small at first: a caller may stop early, and the rest of a log is long
        while first <= last:
            size = sizes.events
            page = self.reader.events_of(self.session_id, address, first, last, size)
            sizes.note(page)
            yield from page
            if len(page) < size:
                return
            first = page[-1].seq + 1

    def events(self, rows: Sequence[Stored | Sealed]) -> Iterable[Event]:
        """Return the events of rows, decoded together. Raises CorruptLog, perhaps while it is iterated."""
        rows = [row.whole() if row.cuts else row for row in rows]
        try:
            bodies = decode_all([row.body for row in rows])
        except UnreadableBody:
            return map(self.event, rows)  # those before it can be read
        if SessionOpened in set(map(type, bodies)):
            return map(self.event, rows)
        return [
            Event(row.seq, row.at, row.sender, row.recipient, row.cause, body)
            for row, body in zip(rows, bodies, strict=True)
        ]

    def event(self, row: Stored | Sealed) -> Event:
        """Return the event of a row without cuts. Raises CorruptLog."""
        event = event_of(self.session_id, row)
        if type(event.body) is SessionOpened:
            check_rules(self.session_id, row.seq, event.body.rules)
            check_format(self.session_id, row.seq, event.body.format)
        return event


class Rows(Sequence[T], Generic[T]):
    """The rows of a session, or something made of each. Iterating, and slices from the start, are checked."""

    def __init__(self, source: Source, made: Callable[[Sequence[Stored | Sealed]], Iterable[T]]) -> None:
        self._source = source
        self._made = made
        self._chunk: tuple[int, list[T]] = (-1, [])

    def __len__(self) -> int:
        return self._source.head.seq

    def __iter__(self) -> Iterator[T]:
        return self.upto(len(self))

    def upto(self, seq: int) -> Iterator[T]:
        """Yield 1 to `seq`, checked. Raises CorruptLog."""
        for page in self._source.sealed_pages(seq):
            yield from self._made(page)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, int):
            return self._one(range(len(self))[place])
        first, end, step = place.indices(len(self))
        if step != 1:
            return [self[one] for one in range(first, end, step)]
        # A digest proves nothing without the one before it, so only a slice from the start can be checked.
        return list(self.upto(end) if first == 0 else self.between(first + 1, end))

    def _one(self, place: int) -> T:
        """Return the item at a place, from the chunk that was read last if it is there."""
        number, offset = divmod(place, _CHUNK_EVENTS)
        if self._chunk[0] != number:
            first = number * _CHUNK_EVENTS + 1
            last = min(first + _CHUNK_EVENTS - 1, len(self))
            try:
                self._chunk = number, list(self._made([*self._source.between(first, last)]))
            except CorruptLog:  # by another row, perhaps: one that cannot be read is refused by itself
                return next(self.between(place + 1, place + 1))
        return self._chunk[1][offset]

    def between(self, first: int, last: int) -> Iterator[T]:
        """Yield `first` to `last`, not checked."""
        return chain.from_iterable(self._made((row,)) for row in self._source.between(first, last))


def whole(rows: Iterable[Stored | Sealed]) -> list[Stored]:
    """Return rows with their large values in their places."""
    return [row.whole() for row in rows]


def head_at(reader: LogReader, session_id: str, end: Head, seq: int) -> Head:
    """Return the head that a session had after an event. Raises UnknownName if it has no such event."""
    row = next(iter(reader.events(session_id, seq, 1)), None) if 1 <= seq <= end.seq else None
    if row is None:
        raise UnknownName(f"session {session_id} has events 1 to {end.seq}; there is no {seq}")
    return Head(seq, row.digest)


def check_known(reader: LogReader, session_id: str, end: Head, known: Head | None) -> None:
    """Raise CorruptLog if the log plainly does not hold a head that was acknowledged."""
    if known is None or known.seq == 0:
        return  # of an empty session the head is its origin, which the first check of digests compares
    row = next(iter(reader.events(session_id, known.seq, 1)), None)
    if row is None or (row.seq, row.digest) != known:
        missing = "is missing" if end.seq < known.seq else "is not the one that was acknowledged"
        said = f"session {session_id}, event {known.seq} {missing}: the log was cut or rewritten"
        raise CorruptLog(f"{said}; look for a whole copy of it", session_id, known.seq)


def _gap(session_id: str, seq: int, following: int = 0) -> CorruptLog:
    said = f"{following} follows" if following else "nothing follows"
    return CorruptLog(f"session {session_id}: event {seq} is missing, {said}", session_id, seq)


class _Agent(msgspec.Struct):
    agent: str


_agent: Final = msgspec.json.Decoder(_Agent).decode
_GRANT: Final = b'{"type":"CallModel"'


def kind_of(body: bytes) -> str:
    """Return the kind of a message: every body begins with it, as the encoder writes the tag first."""
    return body[START : body.index(b'"', START)].decode()


def agent_of(row: Stored | Sealed) -> str:
    """Return the agent that a model call is for; '' for another message."""
    return _agent(row.body).agent if row.body.startswith(_GRANT) else ""


def concerns(row: Stored | Sealed, address: str) -> bool:
    """Return whether an actor sent or received this event, or it is a grant for that agent."""
    return address in (row.sender, row.recipient) or agent_of(row) == address


_LOOKED_AT: Final = 64
"""Events among which the first prompt is looked for: before it stand only the opening and changes of it."""


def titled(reader: LogReader, rows: Iterable[SessionRow]) -> Iterator[SessionRow]:
    """Yield the rows of sessions, each with its title. One that cannot be read stays without."""
    for row in rows:
        yield row if row.title or not row.head else replace(row, title=_first_prompt(reader, row.session_id))


def title_in(event: Event) -> str:
    """Return the title that an event gives a session without one; '' for an event that is not a prompt."""
    return title_of(event.body.prompt) if isinstance(event.body, Ask) else ""


def _first_prompt(reader: LogReader, session_id: str) -> str:
    try:
        for stored in reader.events(session_id, 1, _LOOKED_AT):
            if kind_of(stored.body) == Ask.__name__:
                return title_in(event_of(session_id, stored))
    except (CallboardError, ValueError):  # a damaged session is listed, too
        pass
    return ""
