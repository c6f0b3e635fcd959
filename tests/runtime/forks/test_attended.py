"""Sessions without a caller are closed after their last ask, and left alone by the end of a runtime."""

import asyncio
from pathlib import Path

from callboard import Runtime, ScriptedModel
from callboard.runtime.forks.attended import AttendedSessions
from tests.runtime.control.test_forking import HOST, policy
from tests.waiting import until


def test_a_session_is_closed_after_its_last_ask_and_a_detached_one_stays(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(policy)) as runtime:
            attended = AttendedSessions()
            session, other = [await runtime.open(HOST, session_id=name) for name in ("one", "two")]
            await session.submit("How warm?")
            attended.attend(session)
            await other.submit("How warm?")
            attended.attend(other)
            await other.detach(0)
            await until(lambda: not attended._tasks)
            closed = [row.session_id async for row in runtime.sessions(status="closed")]
            assert closed == ["one"]

    asyncio.run(scene())
