"""The connection on which a client listens: on a thread of its own, for all sessions that the client follows.

    connect -> register -> LISTEN -> [ follow, renew, wait for notifications ] -> leave
       ^------------------------- connection cut, or the follower was forgotten

Each new connection is a new follower: the owners of its sessions learn of it within a second, and greet it.
A pooler in transaction mode forwards no notifications; the client finds that out, and listens no more.
"""

import asyncio
import contextlib
import logging
import os
import platform
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from callboard.actors.protocol.errors import StoreError
from callboard.runtime.clock import monotonic_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.cipher import Cipher
from callboard.runtime.log.postgres.address import Address
from callboard.runtime.log.postgres.arrays import texts
from callboard.runtime.log.postgres.followers import LEASE_MS, NOTIFY, FollowerTables
from callboard.runtime.log.postgres.link import Cut, Link, Row
from callboard.runtime.log.postgres.notices import Piece, notice_of, opened
from callboard.runtime.log.postgres.schema import quoted

RENEW_MS: Final = LEASE_MS // 3
PROBE_S: Final = 2.0  # in which a notification comes back, where a pooler stands between
AGAIN_S: Final = 0.1  # before it connects again, doubled up to
AGAIN_S_MAX: Final = 5.0
LEAVE_S: Final = 2.0

OnNews = Callable[[list[str], list[tuple[str, Piece]]], object]
"""Takes the sessions with new events, and pieces of text under way, each with its session."""

logger: Final = logging.getLogger("callboard.client")


class _Deaf(Exception):
    """No notification comes through this connection."""


class _Forgotten(Exception):
    """The server knows this follower no longer."""


class Listener:
    """Listens for the sessions that a client follows. The callbacks are called on the client's loop.

    on_state: called with True once it listens, and with False once that is lost.
    """

    def __init__(
        self, address: Address, cipher: Cipher | None, on_news: OnNews, on_state: Callable[[bool], object]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._link, self._cipher = Link(address), cipher
        self._link.on_notify = self._on_notify
        self._on_news, self._on_state = on_news, on_state
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)
        self._lock = threading.Lock()
        self._changes: dict[str, int | None] = {}
        self._stop = threading.Event()
        self._ended = self._loop.create_future()
        # On the thread:
        self._wishes: dict[str, int] = {}
        self._rows: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._payloads: list[str] = []
        self._is_listening = False
        name = "callboard notifications"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def change(self, wishes: Mapping[str, int | None]) -> None:
        """Follow sessions from now on, each with its wish, or no longer (None)."""
        with self._lock:
            self._changes.update(wishes)
        self._poke()

    async def aclose(self) -> None:
        """Leave, and end the thread. A server that does not answer forgets the follower by itself."""
        self._stop.set()
        self._poke()
        await asyncio.wait({self._ended}, timeout=LEAVE_S)
        self._link.close()

    def _poke(self) -> None:
        with contextlib.suppress(OSError):  # it has ended, or is woken already
            self._wake.send(b"x")

    # --- on the thread --------------------------------------------------------------

    def _run(self) -> None:
        pause_s, is_said = AGAIN_S, False
        try:
            while not self._stop.is_set():
                try:
                    self._listen()
                except _Deaf:
                    logger.warning(
                        "%s: a pooler in transaction mode forwards no notifications, so followed sessions "
                        "are asked once a second, and their text comes with its event; give the client an "
                        "address without the pooler",
                        self._link.address,
                    )
                    return
                except (Cut, _Forgotten):
                    pause_s, is_said = AGAIN_S, False
                except StoreError as error:
                    if not is_said and not self._stop.is_set():
                        logger.warning("followed sessions are asked once a second: %s", failure_text(error))
                    is_said = True
                self._note_state(False)
                self._stop.wait(pause_s)
                pause_s = min(2 * pause_s, AGAIN_S_MAX)
        finally:
            self._note_state(False)
            self._link.close()
            self._woken.close()
            self._wake.close()
            self._call(lambda: None if self._ended.done() else self._ended.set_result(None))

    def _listen(self) -> None:
        """Listen until it stops. Raises Cut, StoreError, _Deaf, _Forgotten."""
        self._link.drop()
        self._link.connect()
        tables = FollowerTables(self._execute)
        number, channel = tables.register(f"{platform.node()}:{os.getpid()}")
        self._execute(f'LISTEN "{channel}"')
        if self._link.is_pooled and not self._hears(channel):
            tables.leave(number)
            self._execute("UNLISTEN *")  # perhaps on the connection that the pooler will give to others
            raise _Deaf
        self._rows.clear()
        self._numbers.clear()
        self._follow(tables, number, {**self._wishes, **self._taken()})
        self._note_state(True)
        renewed = monotonic_ms()
        while not self._stop.is_set():
            self._hand_over()
            self._link.wait(self._woken, max(0, renewed + RENEW_MS - monotonic_ms()) / 1_000)
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(4_096)
            self._follow(tables, number, self._taken())
            if monotonic_ms() - renewed >= RENEW_MS:
                renewed = monotonic_ms()
                if not tables.renew(number):
                    raise _Forgotten
        tables.leave(number)

    def _execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Run a statement on this connection, and on no other. Raises Cut."""
        return self._link.execute(statement.replace("{s}", quoted(self._link.address.schema)), values)

    def _hears(self, channel: str) -> bool:
        """Return whether a notification of another connection arrives here while this one is idle.

        One of this connection would come with its answer, also through a pooler that forwards no others.
        """
        other = Link(self._link.address)
        try:
            other.connect()
            other.execute(NOTIFY, (texts([channel]), texts([""])))
        finally:
            other.close()
        until = monotonic_ms() + round(PROBE_S * 1_000)
        while not self._payloads and (left_ms := until - monotonic_ms()) > 0:
            self._link.wait(self._woken, left_ms / 1_000)
        return bool(self._payloads)

    def _taken(self) -> dict[str, int | None]:
        with self._lock:
            changes, self._changes = self._changes, {}
        return changes

    def _follow(self, tables: FollowerTables, number: int, changes: Mapping[str, int | None]) -> None:
        """Write the changes of the sessions that are followed."""
        for session, wish in changes.items():
            if wish is None:
                self._wishes.pop(session, None)
            else:
                self._wishes[session] = wish
        gone = [self._numbers.pop(session) for session in changes if session in self._numbers]
        new = {session: wish for session, wish in changes.items() if wish is not None}
        if gone:
            tables.unfollow(gone)
            for row in gone:
                del self._rows[row]
        if new:
            self._numbers |= (numbers := tables.follow(number, new))
            self._rows.update((row, session) for session, row in numbers.items())

    def _on_notify(self, payload: str) -> None:
        self._payloads.append(payload)

    def _hand_over(self) -> None:
        """Give the notifications that have arrived to the loop."""
        news: list[str] = []
        pieces: list[tuple[str, Piece]] = []
        payloads, self._payloads = self._payloads, []
        for payload in payloads:
            notice = notice_of(payload)
            news += [self._rows[row] for row in notice.news if row in self._rows]
            for row, sent in notice.pieces:
                session = self._rows.get(row)
                if session is not None and (piece := opened(session, sent, self._cipher)) is not None:
                    pieces.append((session, piece))
        if news or pieces:
            self._call(lambda: self._on_news(news, pieces))

    def _note_state(self, is_listening: bool) -> None:
        if is_listening != self._is_listening:
            self._is_listening = is_listening
            self._call(lambda: self._on_state(is_listening))

    def _call(self, function: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)
