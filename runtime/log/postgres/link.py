"""One connection to a server: statements, transactions, and a new connection where the old one was cut.

Rules
  - A statement that only reads is sent again after a cut.
  - A transaction that was cut before its COMMIT left has changed nothing, and runs again. One that was cut at
    its COMMIT is asked for: the server knows the outcome of each transaction by its number.
  - A write outside a transaction that was cut is not sent again here. `store` asks for its outcome.
  - No transaction waits without limit for a lock, or stays open while its client is stopped.
"""

import os
import selectors
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from callboard.actors.protocol.errors import StoreFailed, StoreLocked
from callboard.runtime.log.postgres import arrays
from callboard.runtime.log.postgres.address import Address
from callboard.runtime.log.postgres.store_errors import (
    driver,
    is_of_pooler,
    is_passing,
    is_repeatable,
    is_starting,
    store_error,
)

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
"""A row of a result. The statement says the kinds of its columns, which no type checker can read."""

PATIENCE_S: Final = 30.0  # for a server that stops and starts again; later every call raises StoreFailed
CONNECT_TIMEOUT_S: Final = 10
PAUSE_S: Final = 0.02  # before the first attempt to connect again, doubled up to
PAUSE_S_MAX: Final = 0.5
LOCK_TIMEOUT_MS: Final = 5_000
IDLE_TIMEOUT_MS: Final = 5_000  # of a transaction whose client is stopped: it holds a session's row
ATTEMPTS_MAX: Final = 20  # of a transaction that the server refuses because of others
_CALM: Final = {
    # A peer that vanished without a word is noticed within half a minute.
    "connect_timeout": f"{CONNECT_TIMEOUT_S}",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "application_name": "callboard",
}
_BEGIN: Final = (  # both in one round trip
    f"BEGIN; SELECT pg_current_xact_id()::text, set_config('lock_timeout', '{LOCK_TIMEOUT_MS}', true), "
    f"set_config('idle_in_transaction_session_timeout', '{IDLE_TIMEOUT_MS}', true)"
)


class Cut(Exception):
    """The connection was cut, so that the outcome of the last statement is not known."""


class Link:
    """A connection, used by one thread at a time."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.server = 0
        self.is_pooled = False  # a pooler stands between
        self.on_notify: Callable[[str], object] | None = None
        """Called with the payload of each notification, by the thread that uses the connection."""

        self._driver = driver()
        self._connection: Any = None
        self._can_prepare = address.can_prepare
        self._is_inside = False  # a transaction
        self._process = os.getpid()
        self._is_closed = threading.Event()

    def connect(self) -> None:
        """Connect, with patience only for a server that says it is starting. Raises StoreError."""
        self._connect_soon("opening", is_starting)

    def close(self) -> None:
        """Close the connection. Safe to call twice, and from another thread."""
        self._is_closed.set()
        self.drop()

    def drop(self) -> None:
        """Close the connection; the next call makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            connection.close()

    # --- statements ---------------------------------------------------------------

    def read(self, query: str, values: Sequence[object] = (), doing: str = "reading") -> list[Row]:
        """Run a statement that changes nothing, on another connection if this one was cut."""
        for _ in range(ATTEMPTS_MAX):
            try:
                return self.execute(query, values, doing)
            except Cut:
                if self._is_inside:
                    raise
        raise StoreFailed(
            f"{self.address}: {doing} failed: the connection is cut each time; look for its cause"
        )

    def execute(self, query: str, values: Sequence[object] = (), doing: str = "writing") -> list[Row]:
        """Run a statement once. Raises Cut, StoreError; psycopg's error for one that may be repeated.

        `BEGIN` may have a second statement, whose rows are returned.
        """
        if self._connection is None:
            if self._is_inside:  # a transaction that has ended with its connection
                raise Cut
            self.again(doing)
        try:
            if query is _BEGIN:
                cursor = self._connection.execute(query, prepare=False)
                cursor.nextset()
            else:
                cursor = self._connection.execute(query, values or None, binary=True)
            return cursor.fetchall() if cursor.description is not None else []
        except self._driver.Error as error:
            if self._connection.closed or self._connection.broken:
                self.drop()
                raise Cut from None
            if is_of_pooler(error):
                # It gives each transaction another connection, to which our prepared statements are strange.
                self._can_prepare = False
                self.drop()
                if self._is_inside:
                    raise Cut from None
                return self.execute(query, values, doing)
            if is_repeatable(error) or isinstance(error, self._driver.errors.IntegrityError):
                raise
            raise store_error(error, self.address, doing) from error
        except UnicodeEncodeError as error:
            raise StoreFailed(f"{self.address}: {doing} failed: {error}") from None

    def transact(self, doing: str, work: Callable[[], T]) -> T:
        """Run a function in a transaction, again where others are in its way. Raises StoreError."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                return self._transact_once(doing, work)
            except Cut:
                pass  # the next attempt connects again
            except self._driver.Error as error:
                if not is_repeatable(error):
                    raise store_error(error, self.address, doing) from error
                self.pause(PAUSE_S * attempt)
        raise StoreLocked(f"{self.address}: {doing} is in the way of other transactions each time; try again")

    def _transact_once(self, doing: str, work: Callable[[], T]) -> T:
        try:
            ((number, *_),) = self.execute(_BEGIN, (), doing)
            self._is_inside = True
            done = work()
        except Cut:
            raise
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._is_inside = False
        try:
            self.execute("COMMIT", (), doing)
        except Cut:
            if not self._is_committed(number, doing):
                raise
        return done

    def _is_committed(self, number: str, doing: str) -> bool:
        """Ask for the outcome of a transaction, once it has one."""
        while True:
            ((status,),) = self.read("SELECT pg_xact_status(%s::text::xid8)", (number,), doing)
            if status != "in progress":
                return bool(status == "committed")
            self.pause(PAUSE_S)

    def _roll_back(self) -> None:
        if self._connection is not None:
            try:
                self._connection.execute("ROLLBACK")
            except self._driver.Error:  # then the server does it, as the connection ends
                self.drop()

    def wait(self, other: socket.socket, timeout_s: float) -> None:
        """Wait for a notification, until `other` can be read, or for some time. Raises Cut."""
        connection = self._connection
        if connection is None:
            raise Cut
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(other, selectors.EVENT_READ)
                selector.register(connection.fileno(), selectors.EVENT_READ)
                selector.select(timeout_s)
            connection.pgconn.consume_input()
            while (found := connection.pgconn.notifies()) is not None:
                connection.pgconn.notify_handler(found)
        except (self._driver.Error, OSError, ValueError):  # closed, perhaps by another thread
            self.drop()
            raise Cut from None

    # --- connecting ---------------------------------------------------------------

    def again(self, doing: str) -> None:
        """Connect again, with patience for a server that starts. Raises StoreFailed."""
        self._check()
        self._connect_soon(f"{doing} after a cut connection", is_passing)

    def _connect_soon(self, doing: str, passes: Callable[[Exception], bool]) -> None:
        """Connect. passes: says of an error whether a later attempt may succeed."""
        waited, pause = 0.0, PAUSE_S
        while True:
            try:
                self._connect()
                return
            except self._driver.Error as error:
                if not passes(error) or waited > PATIENCE_S:
                    # Without its cause, whose traceback shows the arguments of the driver's calls.
                    raise store_error(error, self.address, doing) from None
                waited += CONNECT_TIMEOUT_S if "timeout" in str(error) else 0
            self.pause(pause)
            waited += pause
            pause = min(2 * pause, PAUSE_S_MAX)

    def pause(self, seconds: float) -> None:
        """Wait, unless the connection is closed meanwhile. Raises StoreFailed."""
        self._is_closed.wait(seconds)
        self._check()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise StoreLocked(
                f"{self.address}: this connection belongs to the process from which this one was forked; "
                "open the log here again"
            )
        if self._is_closed.is_set():
            raise StoreFailed(f"{self.address} is not open; open it first")

    def _connect(self) -> None:
        given = {**_CALM, **self.address.parameters}
        connection = self._driver.connect(
            autocommit=True, prepare_threshold=5 if self._can_prepare else None, **given
        )
        arrays.register(connection.adapters)
        connection.add_notice_handler(lambda notice: None)
        if (on_notify := self.on_notify) is not None:
            connection.add_notify_handler(lambda found: on_notify(found.payload))
        # A pooler answers with a number of its own. Behind it, a statement that another client has prepared
        # under the same name on that server would run instead of ours, so none is prepared.
        ((backend,),) = connection.execute("SELECT pg_backend_pid()").fetchall()
        self.is_pooled = backend != connection.info.backend_pid
        if self.is_pooled:
            connection.prepare_threshold = None
        self._connection, self.server = connection, connection.info.server_version
