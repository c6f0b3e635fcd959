"""Reading a log on PostgreSQL without owning it: for replay, the command line, the UI. No event loop.

Each page is a statement of its own, so a reader holds no snapshot and no lock. It works beside live writers
and on read-only replicas, which may be a little behind.
"""

from collections.abc import Iterator
from contextlib import ExitStack

from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.address import Address, address_of
from callboard.runtime.log.postgres.checking import CheckedTables
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.meta import check_readable, opened, values
from callboard.runtime.log.postgres.spending import SpendingTables
from callboard.runtime.log.postgres.tables import Entry
from callboard.runtime.log.protocol import Head, LogReader, Sealed, Segment, Stored
from callboard.runtime.log.session_rows import EVERY_SESSION, SessionQuery, SessionRow
from callboard.runtime.log.spending import Spending, Unlogged, UsageRow


class PostgresReader(LogReader):
    """A `LogReader` of a log on a server. Connects at once; used by one thread at a time.

    key: the digest key, for `verify_chain`. encryption_key: see `open_log`. Raises StoreUnreadable if there
    is no log, StoreTooNew for a later schema, WrongKey for another encryption key than its own.
    """

    def __init__(
        self, address: str | Address, key: bytes | None = None, encryption_key: bytes | None = None
    ) -> None:
        self.address = address_of(address) if isinstance(address, str) else address
        self._key = key
        self._link = Link(self.address)
        with ExitStack() as failed:
            failed.callback(self._link.close)
            self._link.connect()
            check_readable(self._link)
            cipher = opened(self._link, None, encryption_key)
            failed.pop_all()
        self._tables = CheckedTables(self._link, cipher)
        self._spending = SpendingTables(self._tables, cipher)

    def __repr__(self) -> str:
        return f"PostgresReader({str(self.address)!r})"

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        self._link.close()

    def sessions(self, query: SessionQuery = EVERY_SESSION) -> list[SessionRow]:
        return self._spending.added_to(self._tables.sessions(query))

    def head(self, session_id: str) -> Head:
        return self._tables.entry(session_id).head

    def events(self, session_id: str, start: int = 1, limit: int = 10_000) -> list[Stored]:
        return self._tables.events(session_id, start, limit)

    def events_of(
        self, session_id: str, address: str, first: int, last: int, limit: int = 10_000
    ) -> list[Stored]:
        return self._tables.events_of(session_id, address, first, last, limit)

    def segments(self, session_id: str) -> tuple[Segment, ...]:
        return tuple(part.segment for part in self._tables.lineage(self._tables.entry(session_id)))

    def usage(self, since_day: str = "") -> list[UsageRow]:
        return self._spending.usage(since_day)

    def spending(self) -> tuple[Spending, list[Unlogged]]:
        return self._spending.read(), self._spending.unlogged()

    def key_check(self) -> str:
        return values(self._link)["key_check"]

    def checked_pages(
        self,
        session_id: str,
        upto: int,
        key: bytes | None = None,
        known: Head | None = None,
        after: Head | None = None,
    ) -> Iterator[list[Sealed]]:
        yield from self._tables.checked_pages(*self._to_check(session_id, key), upto, known, after)

    def verify_chain(self, session_id: str, key: bytes | None = None, head: Head | None = None) -> Head:
        return self._tables.verify(*self._to_check(session_id, key), head)

    def _to_check(self, session_id: str, key: bytes | None) -> tuple[HashChain, Entry]:
        hash_chain = HashChain(key or self._key)
        hash_chain.check_key(self.key_check(), repr(self.address))
        return hash_chain, self._tables.entry(session_id)
