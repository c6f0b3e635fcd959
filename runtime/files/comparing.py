"""The call of a program that works in the folder of a session: the folder is compared before and after it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from callboard.runtime.files.versions import CallVersions
from callboard.runtime.tools.output import ToolOutcome, failed

_CANCELLED: Final = "the call was cancelled before the folder was compared"


async def compared(versions: CallVersions, work: Coroutine[object, object, ToolOutcome]) -> ToolOutcome:
    """Run a call, and note the files that it changes. A cancellation before its start is its outcome."""
    try:
        await _looked(versions, versions.begin)
    except asyncio.CancelledError:
        work.close()
        return ToolOutcome("cancelled", failed("the call was cancelled before it started").output)
    outcome = await work
    try:
        await _looked(versions, versions.end)
    except asyncio.CancelledError:  # a second time: the first one ended the work
        versions.failed(_CANCELLED)
    return outcome


async def _looked(versions: CallVersions, look: Callable[[], None]) -> None:
    """Look at the folder on a thread. A look that fails is a gap, and no failure of the call."""
    try:
        await asyncio.to_thread(look)
    except Exception as error:
        versions.failed(f"the folder could not be compared ({type(error).__name__})")
