"""The engine of the `schema` port: checks on the event loop what is provably cheap, the rest in a worker.

    accepted schema, common keywords, valid report     fast.py, on the loop           a few us
    small schema and value, anything else              jsonschema, on the loop        0.1 to 5 ms
    large, or more steps than allowed on the loop      jsonschema, in a worker        0.2 ms and up
    longer than the request's time                     the worker is killed, `failed`

Nothing here reads a file or the network for a schema, blocks the loop for 100 ms, or raises for any
schema or value.
"""

import asyncio
from collections.abc import Awaitable

from callboard.actors.protocol.messages import CheckSchema, SchemaChecked
from callboard.runtime.schemas.acceptance import TooMuch
from callboard.runtime.schemas.engine import ON_THE_LOOP, Engine, NotLoaded, import_jsonschema
from callboard.runtime.schemas.pool import Pool


class SchemaChecker:
    """Answers `CheckSchema` requests. Belongs to one event loop; close it when done."""

    def __init__(self) -> None:
        self._engine = Engine(ON_THE_LOOP)
        self._pool = Pool()

    def check(self, request: CheckSchema) -> SchemaChecked | Awaitable[SchemaChecked]:
        """The answer, at once if it is cheap, else to be awaited, which may be cancelled at any time.

        Never raises for a schema or value.
        """
        try:
            return self._engine.check(request)
        except NotLoaded:
            return self._load_and_check(request)
        except TooMuch:
            return self._pool.check(request)

    async def aclose(self) -> None:
        """End the workers. Checks under way, and later ones that need a worker, are answered `failed`."""
        await self._pool.aclose()

    async def _load_and_check(self, request: CheckSchema) -> SchemaChecked:
        """Import jsonschema on a thread, which takes 0.1 s once, then check."""
        await asyncio.to_thread(import_jsonschema)
        self._engine.load()
        answer = self.check(request)
        return answer if isinstance(answer, SchemaChecked) else await answer
