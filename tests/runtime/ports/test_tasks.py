"""Work under way: given up, timed out, never begun."""

import asyncio
from collections.abc import Awaitable

from callboard.runtime.ports.tasks import Tasks


async def noted(work: Awaitable[None], seq: int, into: list[str]) -> None:
    try:
        await work
        into.append(f"{seq} done")
    except asyncio.CancelledError:
        into.append(f"{seq} cancelled")


def unlost(seq: int, error: BaseException) -> None:
    raise AssertionError(f"{seq} was lost: {error!r}")


def test_each_limit_expires_in_its_own_time_and_the_rest_goes_on() -> None:
    async def run() -> list[str]:
        seen: list[str] = []
        tasks = Tasks(unlost, lambda seq, limit_s: seen.append(f"{seq} expired after {limit_s}"))
        for seq, limit in ((1, 0.03), (2, 0.01), (3, None), (4, 0.01)):
            gate = asyncio.sleep(0.02 if seq == 4 else 0.05)
            tasks.spawn(seq, noted(gate, seq, seen), gate, limit)
        quick = asyncio.sleep(0)
        tasks.spawn(5, noted(quick, 5, seen), quick, 0.01)
        await asyncio.sleep(0.1)
        await tasks.aclose()
        return seen

    assert asyncio.run(run()) == [
        "5 done",
        "2 expired after 0.01",
        "4 expired after 0.01",
        "2 cancelled",
        "4 cancelled",
        "1 expired after 0.03",
        "1 cancelled",
        "3 done",
    ]


def test_a_cancel_is_told_from_an_expiry_and_one_before_the_first_step_is_no_start() -> None:
    async def run() -> list[str]:
        tasks, seen = Tasks(unlost), list[str]()
        one, two = asyncio.sleep(1), asyncio.sleep(1)
        tasks.spawn(1, noted(one, 1, seen), one, 1.0)
        await asyncio.sleep(0)
        assert tasks.cancel(1)
        tasks.spawn(2, noted(two, 2, seen), two, 1.0)
        seen.append(f"2 began: {tasks.cancel(2)}")
        assert not tasks.cancel(3)
        await tasks.aclose()
        return seen

    seen = asyncio.run(run())
    assert "1 cancelled" in seen
    assert set(seen) <= {"1 cancelled", "2 began: False", "2 began: True", "2 cancelled"}


def test_calls_that_ended_long_ago_are_not_kept() -> None:
    async def run() -> int:
        tasks, seen = Tasks(unlost), list[str]()
        for seq in range(1_000):
            quick = asyncio.sleep(0)
            tasks.spawn(seq, noted(quick, seq, seen), quick, 600.0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        kept = sum(len(line) for line in tasks._lines.values())
        await tasks.aclose()
        return kept

    assert asyncio.run(run()) < 100


def test_work_that_ends_in_an_exception_is_told_and_lost_to_nobody() -> None:
    async def broken() -> None:
        await asyncio.sleep(0)
        raise GeneratorExit

    async def run() -> list[str]:
        seen: list[str] = []
        tasks = Tasks(lambda seq, error: seen.append(f"{seq} {type(error).__name__}"))
        done = asyncio.get_running_loop().create_future()
        tasks.spawn(7, broken(), done)
        await asyncio.sleep(0.01)
        await tasks.aclose()
        return seen

    assert asyncio.run(run()) == ["7 GeneratorExit"]
