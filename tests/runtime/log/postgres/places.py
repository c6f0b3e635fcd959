"""Places of logs on the server of a run: each has a schema of its own, empty and removed at the end."""

import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.address import address_of
from callboard.runtime.log.postgres.link import Link
from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.reader import PostgresReader
from callboard.runtime.log.postgres.store import Memory, PostgresStore
from callboard.runtime.log.protocol import TAIL_EVENTS, Head
from tests.postgres_server import Server, execute, shared
from tests.runtime.log.kit import added, events, large, run

COUNT: Final = TAIL_EVENTS + 20  # events of the session that `fill` makes
_numbers: Final = itertools.count(1)


class OnServer:
    """A log in a schema of a server."""

    def __init__(self, url: str, encryption_key: bytes | None = None) -> None:
        self.url = url
        self.schema = address_of(url).schema
        self.is_changed = False  # set by a test that has changed the tables themselves
        self._encryption_key = encryption_key

    def log(self, key: bytes | None = None) -> PostgresLog:
        if key is not None and not self.is_changed:
            self.is_changed = True
            execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")  # another test made it without a key
        return PostgresLog(self.url, key, encryption_key=self._encryption_key)

    def reader(self) -> PostgresReader:
        return PostgresReader(self.url, encryption_key=self._encryption_key)

    def after_crash(self) -> "OnServer":
        """Return the same place: what the server has committed does not depend on its clients."""
        return self

    def set_back(self) -> Callable[[], None]:
        """Remember sessions and events; the returned function restores them."""
        for name in ("sessions", "events"):
            execute(f"CREATE TEMP TABLE was_{name} AS SELECT * FROM {self.schema}.{name}")

        def put_back() -> None:
            for name in ("sessions", "events"):
                execute(
                    f"DELETE FROM {self.schema}.{name}; INSERT INTO {self.schema}.{name} "
                    f"OVERRIDING SYSTEM VALUE SELECT * FROM was_{name}; DROP TABLE was_{name}"
                )

        return put_back


def taken(store: PostgresStore, name: str) -> tuple[int, Head]:
    """Take one session over. Return its epoch and head."""
    (found,) = store.take_over([name])
    if isinstance(found, Exception):
        raise found
    return found


TABLES: Final = (
    *("uses", "blobs", "events", "sessions", "removals", "tags", "usage"),
    *(
        "budgets",
        "reservations",
        "unlogged",
        "commands",
        "leases",
        "workers",
        "places",
        "capacity",
        "followers",
    ),  # and `reserved` and `followed`, by their references
)
_clean: Final[defaultdict[bytes | None, list[str]]] = defaultdict(list)
"""Empty schemas by their encryption key: making the tables takes ten times as long as emptying them."""


@contextmanager
def on_server(encryption_key: bytes | None = None, server: Server | None = None) -> Iterator[OnServer]:
    """Lend a place. server: one of its own, where the shared one will not do; its schema stays as it is."""
    if server is not None:
        yield OnServer(server.url(f"t{next(_numbers)}"), encryption_key)
        return
    server = shared()
    found = _clean[encryption_key]
    schema = found.pop() if found else f"t{os.getpid()}_{next(_numbers)}"
    place = OnServer(server.url(schema), encryption_key)
    yield place
    if place.is_changed or execute(f"SELECT to_regclass('{schema}.meta')::text") == [(None,)]:
        execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        return
    emptied = "; ".join(f"DELETE FROM {schema}.{name}" for name in TABLES)
    execute(f"{emptied}; SELECT setval('{schema}.sessions_id_seq', 1, false)")
    found.append(schema)


def store_of(place: OnServer) -> PostgresStore:
    """Return a store of its own on the log of a place."""
    link, chain = Link(place.log().address), HashChain()
    return PostgresStore(link, chain, prepare(link, chain, None), Memory())


async def fill(place: OnServer) -> None:
    """Make a session of `COUNT` events, two of them large, and a fork of its first seven."""
    log = place.log()
    await log.open()
    await log.create("s", 1, "title")
    await added(log, "s", 1, [*events(1, 4), large(5), *events(6, COUNT - 1), large(COUNT, 4_000, "y")])
    await log.fork("f", 2, "", "s", 7)
    await added(log, "f", 1, events(8, 9))
    await log.close()


@contextmanager
def filled(place: OnServer) -> Iterator[None]:
    """Fill a place, unless it is, and take a row's damage back: to fill it takes ten times as long."""
    names = ("sessions", "events", "blobs", "uses")
    if execute(f"SELECT to_regclass('{place.schema}.meta')::text") == [(None,)] or not execute(
        f"SELECT 1 FROM {place.schema}.sessions LIMIT 1"
    ):
        run(lambda: fill(place))
    execute("; ".join(f"CREATE TEMP TABLE was_{one} AS SELECT * FROM {place.schema}.{one}" for one in names))
    try:
        yield
    finally:
        execute("; ".join(f"DELETE FROM {place.schema}.{one}" for one in names[::-1]))
        for one in names:
            execute(f"INSERT INTO {place.schema}.{one} OVERRIDING SYSTEM VALUE SELECT * FROM was_{one}")
            execute(f"DROP TABLE was_{one}")
