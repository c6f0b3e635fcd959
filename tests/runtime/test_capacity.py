"""The shared capacity: its arguments, its clock and its timer."""

import asyncio
from typing import Any

import pytest

from callboard import Capacity, Runtime
from callboard.errors import MisuseError
from callboard.runtime import capacity
from callboard.runtime.capacity import SharedCapacity


@pytest.mark.parametrize("wrong", [8, {"m": 8}, {"m": {"calls": 8}}, {5: Capacity(calls=1)}, "m"])
def test_capacity_is_a_limit_for_each_model_name(wrong: Any) -> None:
    with pytest.raises(MisuseError, match=r"Capacity\(calls=8\)"):
        Runtime(":memory:", capacity=wrong)


def test_a_bucket_that_fills_gives_the_next_place_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(capacity, "monotonic_ms", lambda: now[0])

    async def body() -> None:
        loop = asyncio.get_running_loop()
        waits: list[float] = []
        timers: list[Any] = []

        def later(delay: float, wake: Any) -> asyncio.TimerHandle:
            waits.append(delay)
            timers.append(wake)
            return loop.call_at(loop.time() + 3_600, wake)

        monkeypatch.setattr(loop, "call_later", later)
        shared, given = SharedCapacity({"m": Capacity(tokens_per_minute=60_000)}), list[str]()
        for agent in ("a", "b", "c"):
            shared.request("s", agent, "m", 40_000, lambda agent=agent: given.append(agent))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        assert (given, waits[-1]) == (["a"], 20.0)
        now[0] = 19_999
        timers[-1]()
        assert (given, waits[-1]) == (["a"], 0.001)
        now[0] = 20_000
        timers[-1]()
        assert (given, waits[-1]) == (["a", "b"], 40.0)
        shared.leave("s")
        shared.close()
        assert shared.report().waiting == ()

    asyncio.run(body())


def test_a_place_that_is_given_back_while_places_are_given_is_given_again() -> None:
    async def body() -> None:
        shared, given = SharedCapacity({"m": Capacity(calls=1)}), list[str]()

        def take(agent: str) -> None:
            given.append(agent)
            shared.give_back("s", agent, 0)

        for agent in ("a", "b", "c"):
            shared.request("s", agent, "m", 1, lambda agent=agent: take(agent))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        assert given == ["a", "b", "c"]
        assert shared.report().lines[0].in_flight == 0

    asyncio.run(body())
