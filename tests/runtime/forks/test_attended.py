"""Sessions that no caller holds: each is closed after its last ask."""

import asyncio
from typing import cast

import pytest

from callboard.actors.protocol.errors import SessionDetached
from callboard.runtime.forks.attended import AttendedSessions
from callboard.runtime.sessions.session import Session


class Asked:
    """A session with so many asks, which end one after the other. fails: raised by the last."""

    def __init__(self, asks: int, fails: Exception | None = None) -> None:
        self.left, self.fails, self.closes = asks, fails, 0

    @property
    def outcome(self) -> "asyncio.Future[None]":
        self.left -= 1
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.fails is not None and not self.left:
            done.set_exception(self.fails)
        else:
            done.set_result(None)
        return done

    @property
    def _has_asks(self) -> bool:
        return self.left > 0

    async def close(self) -> None:
        self.closes += 1


@pytest.mark.parametrize("asks", [1, 2, 5])
def test_a_session_is_closed_once_after_its_last_ask(asks: int) -> None:
    async def work() -> Asked:
        attended, session = AttendedSessions(), Asked(asks)
        attended.attend(cast(Session, session))
        (task,) = attended._tasks
        assert session.left == asks
        await task
        await asyncio.sleep(0)
        assert attended._tasks == set()
        return session

    session = asyncio.run(work())
    assert (session.left, session.closes) == (0, 1)


def test_one_that_is_detached_stays_open_for_the_next_process() -> None:
    async def work() -> Asked:
        attended, session = AttendedSessions(), Asked(2, SessionDetached("gone"))
        attended.attend(cast(Session, session))
        await asyncio.gather(*attended._tasks)
        return session

    assert asyncio.run(work()).closes == 0
