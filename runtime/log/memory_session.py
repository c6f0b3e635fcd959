"""A session of a log in memory."""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.protocol import Head, Sealed, Stored
from callboard.runtime.log.session_rows import SessionRow, change_of, details_of
from callboard.runtime.log.spending import Place, summed, total

# One bytes object per row: 350 bytes for an event with a 180-byte body. A tuple of its parts takes 460, and
# the garbage collector walks it.
pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(Sealed).decode


class MemorySession(msgspec.Struct, eq=False):
    """A session: its row, heads, packed rows, the digests of its large values, and its usage."""

    row: SessionRow
    before: Head  # of its own first event
    head: Head
    epoch: int = 1
    rows: list[bytes] = []
    values: set[bytes] = set()  # digests of its large values
    usage: dict[Place, Usage] = {}
    is_hidden: bool = False  # it was deleted, apart from the events that its forks share

    def cut(self, last: Stored) -> None:
        """Hide the session, and drop its events behind the last one that a fork shares."""
        self.is_hidden = True
        self.rows = self.rows[: last.seq - self.before.seq]
        self.head = Head(last.seq, last.digest)

    def add_usage(self, charges: Sequence[Charge]) -> None:
        """Add the charges of calls."""
        for place, usage in summed(charges).items():
            self.usage[place] = plus(self.usage.get(place, ZERO), usage)
        self.row = structs.replace(self.row, usage=total(self.usage.values()))

    def note(self, events: Sequence[Event]) -> None:
        """Bring the row up to these events."""
        change = change_of(events)
        details = structs.asdict(details_of(change.opened)) if change.opened else {}
        self.row = structs.replace(
            self.row,
            head=self.head.seq,
            last_ms=events[-1].at if events else self.row.last_ms,
            status=change.status_after(self.row.status),
            title=change.title_after(self.row),
            kind=change.kind or self.row.kind,
            failures=change.failures_after(self.row.failures),
            host=change.host or self.row.host,
            **details,
        )
