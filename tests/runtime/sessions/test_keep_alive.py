"""Signs of life: one timer for all readers of a loop."""

import asyncio

from callboard.runtime.scheduling.rounds import Rounds
from callboard.runtime.sessions import keep_alive
from callboard.runtime.sessions.keep_alive import keep_alive_of


def test_a_loop_has_one_timer_and_closed_loops_are_forgotten() -> None:
    async def main() -> Rounds:
        loop = asyncio.get_running_loop()
        assert keep_alive_of(loop) is keep_alive_of(loop)
        found = keep_alive_of(loop)
        assert (found._loop, found._every_s) == (loop, 15.0)
        assert [known for known in keep_alive._known if known.is_closed()] == []
        return found

    first = asyncio.run(main())
    assert asyncio.run(main()) is not first
