"""Places of logs on the server of a run: each has a schema of its own, empty and removed at the end."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from callboard.runtime.log.postgres.log import PostgresLog
from callboard.runtime.log.postgres.reader import PostgresReader
from tests.postgres_server import Server, shared

_numbers: Final = itertools.count(1)


class OnServer:
    """A log in a schema of a server."""

    def __init__(self, url: str, encryption_key: bytes | None = None) -> None:
        self.url = url
        self._encryption_key = encryption_key

    def log(self, key: bytes | None = None) -> PostgresLog:
        return PostgresLog(self.url, key, encryption_key=self._encryption_key)

    def reader(self) -> PostgresReader:
        return PostgresReader(self.url, encryption_key=self._encryption_key)

    def after_crash(self) -> "OnServer":
        """Return the same place: what the server has committed does not depend on its clients."""
        return self


def connected(server: Server) -> Any:
    """Return a connection to a server as its owner."""
    import psycopg

    return psycopg.connect(host=str(server.home), user="owner", dbname="postgres", autocommit=True)


@contextmanager
def on_server(encryption_key: bytes | None = None, server: Server | None = None) -> Iterator[OnServer]:
    """Lend a place."""
    server = server or shared()
    schema = f"t{os.getpid()}_{next(_numbers)}"
    yield OnServer(server.url(schema), encryption_key)
    with connected(server) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
