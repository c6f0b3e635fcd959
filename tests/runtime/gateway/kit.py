"""A recording under way, in front of a service of the tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from callboard import Budget, Runtime
from callboard.runtime.gateway.recorder import Recorder
from callboard.runtime.gateway.server import Gateway


@asynccontextmanager
async def recording(
    folder: Path, upstreams: Mapping[str, str], budget: Budget | None = None
) -> AsyncIterator[tuple[str, Recorder]]:
    """Record into the log of a folder. Yield the address of the gateway, and the recorder."""
    budgets = None if budget is None else {"recording:r1": budget}
    async with Runtime(str(folder / "log.db"), budgets=budgets, keep_requests=True) as runtime:
        recorder = Recorder(runtime, "r1", is_limited=budget is not None)
        async with httpx2.AsyncClient(timeout=10) as client:
            gateway = Gateway(recorder, upstreams, client)
            try:
                yield await gateway.start(), recorder
            finally:
                await recorder.close()
                await gateway.aclose()
