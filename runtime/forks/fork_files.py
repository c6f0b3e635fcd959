"""The files of a fork: a copy as of its event, or those of the origin, which it only reads."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.file_area import FileArea
from callboard.runtime.files.copying import copied
from callboard.runtime.files.files import OriginFiles
from callboard.runtime.forks.starting import Forking
from callboard.runtime.log.recorded_files import recorded_files
from callboard.runtime.sessions.session_deps import SessionDeps


@asynccontextmanager
async def files_for_fork(
    deps: SessionDeps,
    wish: Forking,
    session_id: str,
    events: Sequence[Event],
    base: int,
    area: FileArea | None,
) -> AsyncIterator[None]:
    """Give a fork its files while it begins. A copy is removed if the fork does not begin.

    events: of the whole origin. area: of its files at the base. Raises MisuseError, MissingVersions,
    FileError, CorruptLog.
    """
    if wish.files_to is None:
        protect_origin(deps)
        yield
        return
    recorded = recorded_files(session_id, events, base)
    made = await asyncio.to_thread(
        copied, deps.files, area, wish.files_to, recorded, skip_lost=wish.skip_lost
    )
    deps.files, deps.left_out = made.files, made.left_out
    try:
        yield
    except BaseException:
        made.discard()
        raise


def protect_origin(deps: SessionDeps) -> None:
    """Let a fork without a copy read the files of its origin, and not write them."""
    if deps.files is not None and not isinstance(deps.files, OriginFiles):
        deps.files = OriginFiles(deps.files)
