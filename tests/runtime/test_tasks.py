"""Work under way: given up, timed out, never begun."""

import asyncio
from collections.abc import Awaitable

from callboard.runtime.ports.tasks import Tasks


async def noted(work: Awaitable[None], tasks: Tasks, seq: int, into: list[str]) -> None:
    try:
        await work
        into.append(f"{seq} done")
    except asyncio.CancelledError:
        into.append(f"{seq} {'expired' if tasks.has_expired(seq) else 'cancelled'}")


def test_each_limit_expires_in_its_own_time_and_the_rest_goes_on() -> None:
    async def run() -> list[str]:
        tasks, seen = Tasks(), list[str]()
        for seq, limit in ((1, 0.03), (2, 0.01), (3, None), (4, 0.01)):
            gate = asyncio.sleep(0.02 if seq == 4 else 0.05)
            tasks.spawn(seq, noted(gate, tasks, seq, seen), gate, limit)
        quick = asyncio.sleep(0)
        tasks.spawn(5, noted(quick, tasks, 5, seen), quick, 0.01)
        await asyncio.sleep(0.1)
        await tasks.aclose()
        return seen

    assert asyncio.run(run()) == ["5 done", "2 expired", "4 expired", "1 expired", "3 done"]


def test_a_cancel_is_told_from_an_expiry_and_one_before_the_first_step_is_no_start() -> None:
    async def run() -> list[str]:
        tasks, seen = Tasks(), list[str]()
        one, two = asyncio.sleep(1), asyncio.sleep(1)
        tasks.spawn(1, noted(one, tasks, 1, seen), one, 1.0)
        await asyncio.sleep(0)
        assert tasks.cancel(1)
        tasks.spawn(2, noted(two, tasks, 2, seen), two, 1.0)
        seen.append(f"2 began: {tasks.cancel(2)}")
        assert not tasks.cancel(3)
        await tasks.aclose()
        return seen

    seen = asyncio.run(run())
    assert "1 cancelled" in seen
    assert set(seen) <= {"1 cancelled", "2 began: False", "2 began: True", "2 cancelled"}


def test_calls_that_ended_long_ago_are_not_kept() -> None:
    async def run() -> int:
        tasks, seen = Tasks(), list[str]()
        for seq in range(1_000):
            quick = asyncio.sleep(0)
            tasks.spawn(seq, noted(quick, tasks, seq, seen), quick, 600.0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        kept = sum(len(line) for line in tasks._lines.values())
        await tasks.aclose()
        return kept

    assert asyncio.run(run()) < 100
