"""A program as a web server: uvicorn runs an app whose lifespan holds the runtime.

SIGTERM ends it. Uvicorn closes the lifespan, which leaves the runtime while its sessions work on; then it
raises the signal again.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import uvicorn
from starlette.applications import Starlette

from callboard.actors.protocol.errors import SessionDetached


class Served:
    """A server on a free port of this machine.

    program: a context that opens the runtime and leaves it at its end; it gives the work of its sessions.
    after_s: seconds from the start of the lifespan to SIGTERM. A server whose sessions have ended stops by
    itself.
    """

    def __init__(
        self, program: Callable[[], AbstractAsyncContextManager[Awaitable[object]]], after_s: float
    ) -> None:
        app = Starlette(lifespan=self._lifespan)
        self._server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, ws="none"))
        self._program = program
        self._after_s = after_s
        self._error: Exception | None = None

    async def serve(self) -> None:
        """Serve until SIGTERM or the end of the sessions. Raises the error of a session or of the runtime."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            try:
                await self._server.serve([listening])
            finally:
                if self._error is not None:
                    raise self._error

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().call_later(self._after_s, os.kill, os.getpid(), signal.SIGTERM)
        try:
            async with self._program() as sessions:
                work = asyncio.ensure_future(sessions)
                work.add_done_callback(self._stop)
                yield
            with suppress(SessionDetached):
                await work
        except Exception as error:  # uvicorn would only log it
            self._error = error

    def _stop(self, work: "asyncio.Future[object]") -> None:
        self._server.should_exit = True
