"""Events whose digests are recomputed as they are read, of one session or of several at once.

After the loss of a worker another one resumes hundreds of sessions, most of them short: one statement reads
the first events of all that it opens at a time.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from callboard.actors.protocol.errors import SessionNotFound
from callboard.runtime.log.hash_chain import FIRST_EVENTS, HashChain, corrupt, last_head
from callboard.runtime.log.postgres.arrays import int8s
from callboard.runtime.log.postgres.link import Row
from callboard.runtime.log.postgres.tables import ROWS, SEQ_MAX, Entry, Tables
from callboard.runtime.log.protocol import TAIL_EVENTS, Head, Sealed, Stored, no_session
from callboard.runtime.log.stored_values import whole_row

_AHEAD: Final = (
    "SELECT k.at, e.* FROM unnest(%s, %s, %s) WITH ORDINALITY AS k(session, first, most, at) "
    "CROSS JOIN LATERAL (SELECT seq, at, sender, recipient, cause, body, digest, cuts FROM {s}.events "
    "WHERE session = k.session AND seq >= k.first ORDER BY seq LIMIT k.most) AS e ORDER BY k.at, e.seq"
)


class Wanted(NamedTuple):
    """Events to check: those of a session behind a head, as `EventLog.checked` takes them."""

    session_id: str
    after: Head | None
    limit: int


class Ahead(NamedTuple):
    """The rows of a session's own events from seq `first` on, up to `most`, read beforehand."""

    first: int
    most: int
    rows: list[Row]


class CheckedTables(Tables):
    """Reads the tables of a log and checks digests. Raises CorruptLog."""

    def checked_pages(
        self,
        hash_chain: HashChain,
        entry: Entry,
        upto: int,
        known: Head | None = None,
        after: Head | None = None,
        *,
        with_data: bool = True,
        ahead: Ahead | None = None,
    ) -> Iterator[list[Sealed]]:
        """Yield rows 1 to `upto`, checked, in pages. With the last event, its place as the last one too.

        ahead: rows of its own that were read before.
        """
        session_id = entry.session_id
        parts = {part.session_id: part for part in self.lineage(entry)}
        behind = None  # the row after the last page, if it was asked for

        def rows_of(part: Entry, first: int, most: int) -> list[Row]:
            wanted = (part.number, first)
            if ahead is None or wanted != (entry.number, ahead.first) or most > ahead.most:
                return self.rows(ROWS, (*wanted, SEQ_MAX, most))
            return ahead.rows[:most]

        def read(name: str, start: int, limit: int) -> list[Sealed]:
            nonlocal behind
            part = parts[name]
            rows = rows_of(part, max(start, part.base + 1), limit + 1)
            behind = rows[limit:]
            return self.sealed(part, rows[:limit], with_data=with_data)

        segments = [part.segment for part in parts.values()]
        yield from hash_chain.checked_pages(segments, read, upto, known, after)
        if upto >= entry.head.seq and not entry.is_hidden:
            if behind is None or entry.head.seq == entry.base:
                behind = rows_of(entry, entry.head.seq + 1, 1)
            # Asked again: a live owner may have appended since, and moves the head with the events.
            if behind and self.entry(session_id).head.seq < behind[0][0]:
                raise corrupt(session_id, behind[0][0], "comes after the last one of its session")

    def verify(self, hash_chain: HashChain, entry: Entry, known: Head | None = None) -> Head:
        """Check every digest and return the head. known: one that the log must still contain."""
        upto = max(entry.head.seq, known.seq if known else 0)
        head = last_head(self.checked_pages(hash_chain, entry, upto, known, with_data=False), entry.before)
        self._check_head(entry, head)
        return head

    def checked(
        self, hash_chain: HashChain, wanted: Sequence[Wanted]
    ) -> list[list[Stored] | SessionNotFound]:
        """Return events of each session whose digests were recomputed, as `EventLog.checked` does.

        The first events of all sessions are read in one statement. Raises CorruptLog.
        """
        entries = self.entries({one.session_id for one in wanted})
        found = [(one, entries[one.session_id]) for one in wanted if one.session_id in entries]
        starts = [max(one.after.seq if one.after else 0, entry.base) + 1 for one, entry in found]
        asked = [
            (entry, first, min(FIRST_EVENTS, one.limit) + 1)
            for (one, entry), first in zip(found, starts, strict=True)
        ]
        rows = {
            one: self._checked(hash_chain, entry, one, ahead)
            for (one, entry), ahead in zip(found, self._read_ahead(asked), strict=True)
        }
        return [rows[one] if one in rows else no_session(one.session_id) for one in wanted]

    def _checked(self, hash_chain: HashChain, entry: Entry, wanted: Wanted, ahead: Ahead) -> list[Stored]:
        after = wanted.after
        upto = min(entry.head.seq, (after.seq if after else 0) + wanted.limit)
        pages = self.checked_pages(hash_chain, entry, upto, after=after, ahead=ahead)
        rows = list(chain.from_iterable(pages))
        if rows:
            self._check_head(entry, Head(rows[-1].seq, rows[-1].digest))
        return [whole_row(entry.session_id, row) for row in rows]

    def verify_tails(self, hash_chain: HashChain, entries: Sequence[Entry]) -> None:
        """Check the last events of sessions, whose rows the transaction has locked. Raises CorruptLog."""
        befores = [max(entry.base, entry.head.seq - TAIL_EVENTS) for entry in entries]
        # With the event before them, unless the session begins there, and one behind, which must not exist.
        asked = [
            (entry, max(before, entry.base + 1), TAIL_EVENTS + 2)
            for entry, before in zip(entries, befores, strict=True)
        ]
        for entry, seq, ahead in zip(entries, befores, self._read_ahead(asked), strict=True):
            before = entry.before
            if seq > entry.base:
                if not ahead.rows or ahead.rows[0][0] != seq:
                    raise corrupt(entry.session_id, seq, "is missing")
                before = Head(seq, ahead.rows[0][6])
                ahead = Ahead(seq + 1, ahead.most - 1, ahead.rows[1:])
            pages = self.checked_pages(
                hash_chain, entry, entry.head.seq, after=before, with_data=False, ahead=ahead
            )
            self._check_head(entry, last_head(pages, before))

    def _read_ahead(self, asked: Sequence[tuple[Entry, int, int]]) -> list[Ahead]:
        """Read own events of several sessions in one statement: from a seq on, up to so many of each."""
        if not asked:
            return []
        numbers, firsts, most = zip(
            *((entry.number, first, most) for entry, first, most in asked), strict=True
        )
        found = [Ahead(first, count, []) for _, first, count in asked]
        for at, *row in self.rows(_AHEAD, (int8s(numbers), int8s(firsts), int8s(most))):
            found[at - 1].rows.append(row)
        return found

    def _check_head(self, entry: Entry, head: Head) -> None:
        if head.seq == entry.head.seq and head.digest != entry.head.digest:
            raise corrupt(entry.session_id, max(1, head.seq), "is not the one that its session ends with")
