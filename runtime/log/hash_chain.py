"""Digests of events, chained: they show an event that was changed, moved, dropped or inserted.

    digest = BLAKE2b(digest_size=32, person="callboard/1", key=the user's key, or empty)(
        MessagePack([session, seq, previous, at, sender, recipient, cause, body, cuts]))

    session   str   the session's id
    seq       int   its place, from 1
    previous  bin   the digest of event seq-1; of the first event, the session's origin, 32 zero bytes
    at        int   milliseconds since 1970 UTC
    sender, recipient  str
    cause     int   the seq of the event whose handling posted this one, 0 for none
    body      bin   the stored text, UTF-8, with `null` where a large value was cut out
    cuts      array of [offset int, digest bin], in the order of the text: see large_values.py

A fork shares the events up to its base with its parent. They stay under the parent's id. The first event of
its own continues the digest of the last one that it shares.

MessagePack with every item in its shortest form is injective: two different events never give the same bytes.
docs/log.md says which changes are found.

The sizes of pages of a long read: many small events, or few large ones, so that memory stays bounded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import repeat, zip_longest
from typing import Final, NamedTuple

import msgspec

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import CorruptLog, MisuseError, WrongKey
from callboard.actors.protocol.events import Event
from callboard.runtime.log.large_values import BODY_BYTES_MAX, Cut, cut
from callboard.runtime.log.protocol import Head, Sealed, Segment, Stored

FIRST_EVENTS: Final = 100
PAGE_BYTES: Final = 4 << 20
"""The bytes that a page is meant to hold. One event may hold more, and the sizes of events may change."""


class PageSizes:
    """The number of events of the next page. most: of any page."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.events = min(FIRST_EVENTS, most)

    def note(self, page: Sequence[Stored | Sealed]) -> None:
        """Learn from a page that was read: the next one grows to at most four times its events."""
        held = sum([len(row.body) for row in page])
        held += sum([len(one.data) for row in page if row.cuts for one in row.cuts])
        wanted = len(page) * PAGE_BYTES // max(held, 1)
        self.events = max(1, min(self._most, 4 * self.events, wanted))


DIGEST_KIND: Final = "blake2b-32 callboard/1"  # in a log, to say how its digests are computed
DIGEST_BYTES: Final = 32
KEY_BYTES_MAX: Final = 64  # limit of BLAKE2b (RFC 7693, 2.5)
PAGE_EVENTS: Final = 2_000  # rows in memory at a time
# Rows of a log in a file: they and their messages stay in the processor's cache until the last look at them.
# With 2,000, a diagnosis takes 4 % longer on a quiet machine (1 MiB of cache), and about a tenth while other
# processes use the cache beside it. A server gives more at a time: each page is a way there and back.
FILE_PAGE_EVENTS: Final = 400

# Of an event that cannot be written: a lone surrogate, a number too large.
UNWRITABLE: Final = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)
_NUMBER_MAX: Final = (1 << 63) - 1
_pack = msgspec.msgpack.Encoder().encode


class Sealing(NamedTuple):
    """The stored texts and digests of consecutive events. cuts: those of a body, by its place."""

    bodies: list[bytes]
    digests: list[bytes]
    cuts: dict[int, tuple[Cut, ...]]

    def head(self, before: Head) -> Head:
        """Return the head of a session that these events continue."""
        return Head(before.seq + len(self.digests), self.digests[-1]) if self.digests else before

    def rows(self, events: Sequence[Event]) -> Iterator[Sealed]:
        """Yield the rows of the events that were sealed."""
        for at, (event, body, digest) in enumerate(zip(events, self.bodies, self.digests, strict=True)):
            cuts = self.cuts.get(at, ())
            yield Sealed(event.seq, event.at, event.sender, event.recipient, event.cause, body, cuts, digest)


class HashChain:
    """Computes the digests of one store's events, all under the same key."""

    def __init__(self, key: bytes | None = None) -> None:
        if key is not None and not 0 < len(key) <= KEY_BYTES_MAX:
            raise MisuseError(f"a digest key has 1 to {KEY_BYTES_MAX} bytes, not {len(key)}")
        secret = key or b""
        self._empty = blake2b(digest_size=DIGEST_BYTES, person=b"callboard/1", key=secret)
        check = blake2b(digest_size=8, person=b"callboard/key", key=secret)
        # Kept in the log to recognise its key. Reveals nothing of the key itself.
        self.key_check = "" if key is None else check.hexdigest()

    def seal_all(self, session_id: str, previous: bytes, events: Sequence[Event]) -> Sealing:
        """Return the sealing of consecutive events. Raises one of `UNWRITABLE`."""
        _check(events)
        bodies = [encode(event.body) for event in events]
        cuts = _cut_large(events, bodies)
        places = (
            (_places(cuts[at]) if at in cuts else () for at in range(len(bodies))) if cuts else repeat(())
        )
        digests: list[bytes] = []
        fresh = self._empty.copy  # a new one with parameters and key takes 1.0 us
        for event, body, cut_out in zip(events, bodies, places, strict=False):
            state = fresh()
            sender, recipient, cause = event.sender, event.recipient, event.cause
            state.update(
                _pack((session_id, event.seq, previous, event.at, sender, recipient, cause, body, cut_out))
            )
            previous = state.digest()
            digests.append(previous)
        return Sealing(bodies, digests, cuts)

    def digest(self, session_id: str, previous: bytes, row: Sealed) -> bytes:
        """Return the digest of a row behind `previous`. Its cuts need no data; its own digest is not read."""
        places = _places(row.cuts) if row.cuts else ()
        item = (session_id, row.seq, previous, row.at, row.sender, row.recipient, row.cause, row.body, places)
        state = self._empty.copy()
        state.update(_pack(item))
        return state.digest()

    def checked_pages(
        self,
        segments: Sequence[Segment],
        read: Callable[[str, int, int], list[Sealed]],
        upto: int,
        known: Head | None = None,
        after: Head | None = None,
        most: int = PAGE_EVENTS,
    ) -> Iterator[list[Sealed]]:
        """Yield the rows 1 to `upto` in pages, each once its digests are recomputed.

        segments: those of the session, the oldest first. read: returns rows of a segment (named by its id)
        from a seq on, up to so many. known: a head that was acknowledged earlier. after: a head up to which
        the rows were checked earlier; those behind it are yielded. most: the events of a page. Raises
        CorruptLog at the first event that does not fit.
        """
        head = after or segments[0].before
        known = known or head
        for segment, following in zip_longest(segments, segments[1:]):
            name = segment.session_id
            if following is not None and segment.last < head.seq:
                continue
            if head.seq <= segment.before.seq and head != segment.before:
                raise corrupt(name, segment.before.seq + 1, f"does not continue event {segment.before.seq}")
            last = upto if following is None else min(upto, segment.last)
            for page in self._pages_of(name, head, partial(read, name), last, known, min(most, PAGE_EVENTS)):
                head = Head(page[-1].seq, page[-1].digest)
                yield page
            if last == upto:
                return

    def _pages_of(
        self,
        session_id: str,
        head: Head,
        read: Callable[[int, int], list[Sealed]],
        upto: int,
        known: Head,
        most: int,
    ) -> Iterator[list[Sealed]]:
        """Yield the rows behind `head` in pages, checked. known, most: as in `checked_pages`."""
        _compare(session_id, head, known)
        # A page ends at the known head, which is compared before any event behind it is looked at.
        sizes = PageSizes(most)
        for last in (min(known.seq, upto), upto):
            while head.seq < last:
                page = read(head.seq + 1, min(sizes.events, last - head.seq))
                head = self._checked(session_id, head, page)
                sizes.note(page)
                _compare(session_id, head, known)
                yield page

    def _checked(self, session_id: str, head: Head, page: list[Sealed]) -> Head:
        """Check the digests of a page behind a head. Return the head after it."""
        seq, previous = head
        fresh = self._empty.copy
        for row in page:
            if row.seq != seq + 1:
                raise corrupt(session_id, seq + 1, f"is missing; the next one there is {row.seq}")
            # `digest` in place: a tenth of the time of reading a log.
            seq, cause, body, places = row.seq, row.cause, row.body, _places(row.cuts) if row.cuts else ()
            state = fresh()
            state.update(
                _pack((session_id, seq, previous, row.at, row.sender, row.recipient, cause, body, places))
            )
            previous = state.digest()
            if row.digest != previous:
                raise corrupt(session_id, seq, "does not match its digest")
        if not page:
            raise corrupt(session_id, seq + 1, "is missing, and all after it")
        return Head(seq, previous)

    def check_key(self, kept: str, where: str) -> None:
        """Refuse a key that the log was not made with: its chain would break. Raises WrongKey."""
        if kept == self.key_check:
            return
        if kept:
            other = "another" if self.key_check else "a"
            raise WrongKey(f"{where} was created with {other} digest key; pass that key")
        raise WrongKey(
            f"{where} says that it was made without a digest key; leave the key out. If it was made with "
            f"one, the log was rewritten"
        )


def last_head(pages: Iterable[list[Sealed]], head: Head) -> Head:
    """Return the head of a session after all of its pages. head: before the first."""
    for page in pages:
        head = Head(page[-1].seq, page[-1].digest)
    return head


def _check(events: Sequence[Event]) -> None:
    """Refuse values that SQLite could not return unchanged. Raises ValueError, OverflowError."""
    # A batch has few different times and addresses, so each is looked at once.
    numbers = {event.at for event in events} | {event.cause for event in events}
    if numbers and not -_NUMBER_MAX <= min(numbers) <= max(numbers) <= _NUMBER_MAX:
        raise OverflowError(f"an event behind {events[0].seq - 1} holds a number of more than 64 bits")
    for address in {event.sender for event in events} | {event.recipient for event in events}:
        if "\0" in address:
            raise ValueError(f"there is NUL in the address {address!r:.100}")


def _cut_large(events: Sequence[Event], bodies: list[bytes]) -> dict[int, tuple[Cut, ...]]:
    """Cut large values out of the bodies. Return the values by the place of their body."""
    found: dict[int, tuple[Cut, ...]] = {}
    if max(map(len, bodies), default=0) <= BODY_BYTES_MAX:  # as in most batches
        return found
    for at, body in enumerate(bodies):
        if len(body) > BODY_BYTES_MAX:
            bodies[at], cuts = cut(events[at].body, body)
            if cuts:
                found[at] = cuts
    return found


def _compare(session_id: str, head: Head, known: Head) -> None:
    """Refuse a head that differs from the acknowledged one of the same seq."""
    if head.seq == known.seq and head.digest != known.digest:
        what = "is not the one that was" if head.seq else "does not continue the head that was"
        raise corrupt(session_id, max(head.seq, 1), f"{what} acknowledged")


def _places(cuts: tuple[Cut, ...]) -> list[tuple[int, bytes]]:
    return [(offset, digest) for offset, digest, _ in cuts]


def corrupt(session_id: str, seq: int, what: str) -> CorruptLog:
    """Return the error for an event that is not as it was written. what: the end of the sentence."""
    said = f"session {session_id}, event {seq} {what}: the log was damaged or edited"
    return CorruptLog(f"{said}; events before {seq} are as they were written", session_id, seq)
