"""A connection of aiosqlite and its thread. All uses of aiosqlite's private parts are here.

Three habits of aiosqlite 0.22.1 that a log cannot live with:
  - its public calls are one thread hop per statement (110-130 us each, a transaction has three or more):
    here a whole batch is one function, put on the connection's own queue (`_tx`);
  - a result for a loop that was closed meanwhile ends the thread: here such a result is dropped;
  - its thread is not a daemon, so a program that forgets `close` never ends: here it is one. `SQLiteLog`
    stops it when the log is collected or, by `atexit`, while daemon threads still run.

Cancelling a caller never stops a function that was queued: it runs whole, and its result is dropped.
"""

import asyncio
import contextlib
import ctypes
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import quote

import aiosqlite
from aiosqlite import core

from callboard.runtime.log.sqlite.meta import BUSY_TIMEOUT_MS
from callboard.runtime.log.thread_calls import answer

T = TypeVar("T")
LEAVE_TIMEOUT_S: Final = 10.0  # without `close`; batches that remain in the queue were not acknowledged

if not aiosqlite.__version__.startswith("0.22."):  # pyproject.toml pins the same
    raise ImportError(
        f"aiosqlite {aiosqlite.__version__}: callboard needs 0.22, because it uses private parts of it"
    )


class SQLiteThread:
    """One SQLite connection, used by its own thread only, one function after the other."""

    def __init__(self, path: Path) -> None:
        self._connection = aiosqlite.connect(
            f"file:{quote(str(path))}?mode=rwc",
            uri=True,
            isolation_level=None,  # the default, "", begins deferred: a later write then fails at once
            timeout=BUSY_TIMEOUT_MS / 1_000,
            cached_statements=64,
        )
        self._is_stopping = False
        self._connection._thread.daemon = True
        self._connection._thread.start()
        _live.add(self)

    async def connect(self) -> sqlite3.Connection:
        """Open the file. Only functions that are given to `run` may use the connection."""
        return await self.run(self._connect)

    def _connect(self) -> sqlite3.Connection:
        # Not `await connection`: cancelled while it connects, that leaves an open file behind (its #259).
        self._connection._connection = self._connection._connector()
        return self._connection._connection

    async def run(self, function: Callable[[], T]) -> T:
        """Run a function on the thread, after all that were queued before, and return its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._connection._tx.put_nowait((None, lambda: answer(loop, future, function)))
        return await future

    def stop(self, last: Callable[[], object], then: Callable[[], object]) -> None:
        """Queue the end: `last`, closing the file, `then`, ending the thread. Does not wait."""
        if not self._is_stopping:
            self._is_stopping = True
            self._connection._tx.put_nowait((None, lambda: self._finish(last, then)))

    def _finish(self, last: Callable[[], object], then: Callable[[], object]) -> object:
        opened, self._connection._connection = self._connection._connection, None
        if opened is not None:
            for leave in (last, opened.close):
                with contextlib.suppress(sqlite3.Error):  # acknowledged events are in the file already
                    leave()
        then()
        return core._STOP_RUNNING_SENTINEL

    def join(self, timeout_s: float = LEAVE_TIMEOUT_S) -> bool:
        """Wait for the thread's end. Return whether it came; on the thread itself, at once."""
        thread = self._connection._thread
        if thread is not threading.current_thread():  # the garbage collector runs on any thread
            thread.join(timeout_s)
        return not thread.is_alive()

    def leak(self) -> None:
        """Give the connection up in a forked child, without closing it: its locks are the parent's."""
        # See https://sqlite.org/howtocorrupt.html, 2.7.
        opened, self._connection._connection = self._connection._connection, None
        if opened is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(opened))


_live: "weakref.WeakSet[SQLiteThread]" = weakref.WeakSet()


def _leak_all() -> None:
    for thread in list(_live):
        thread.leak()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_leak_all)
