"""The engine of the `schema` port: checks cheap reports on the event loop, the rest in a worker.

    small schema, valid report                       jsonschema-rs, on the loop    4 us
    invalid, large, or a schema that refers to itself    in a worker                   1 ms and up
    longer than the request's time                       the worker is killed, `failed`

Nothing here reads a file or the network for a schema, holds the loop for 50 ms, or raises for any
schema or value.
"""

import asyncio
from collections.abc import Awaitable

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas.acceptance import TooMuch
from callboard.runtime.schemas.engine import Engine, import_compiled
from callboard.runtime.schemas.pool import Pool


class SchemaChecker:
    """Answers `CheckSchema` requests. Belongs to one event loop; close it when done."""

    def __init__(self) -> None:
        self._engine = Engine(is_bounded=True)
        self._pool = Pool()
        self._loading: asyncio.Future[None] | None = None

    def load(self) -> "asyncio.Future[None]":
        """Begin to import jsonschema-rs in a thread, unless that has begun; return its end.

        Without this the first check begins it. It takes 6 ms and 6 MB, of which 5 are pages of the library's
        file that processes share.
        """
        if self._loading is None:
            self._loading = asyncio.get_running_loop().run_in_executor(None, import_compiled)
        return self._loading

    def check(self, request: CheckSchema) -> SchemaChecked | Awaitable[SchemaChecked]:
        """Answer at once if that is cheap; else return an awaitable, which may be cancelled at any time.

        Never raises for a schema or value.
        """
        if not self.load().done():
            return self._check_when_loaded(request)
        try:
            return self._engine.check(request)
        except TooMuch:
            return self._pool.check(request)

    async def aclose(self) -> None:
        """End the workers. Checks under way, and later ones that need a worker, are answered `failed`."""
        await self._pool.aclose()

    async def _check_when_loaded(self, request: CheckSchema) -> SchemaChecked:
        await asyncio.shield(self.load())  # a cancelled check must not end the import for the others
        answer = self.check(request)
        return answer if isinstance(answer, SchemaChecked) else await answer
