"""The shared budgets: their arguments, their clock and their timer."""

import asyncio
from typing import Any

import pytest

from callboard import Budget, Capacity, Runtime
from callboard.actors.protocol.usage import Need
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement
from callboard.actors.session.budget_scope import Refused
from callboard.actors.session.budgets import Given
from callboard.errors import MisuseError
from callboard.log import MemoryLog
from callboard.runtime import budgets
from callboard.runtime.budgets import SharedBudgets, SharedCapacity
from tests.tables import table

DAY = 86_400_000
SCOPES = ("*",)


@pytest.mark.parametrize("wrong", [20, {"*": 20}, {"a*b": Budget(tokens=1)}, [("*", Budget(tokens=1))]])
def test_budgets_are_given_by_pattern(wrong: Any) -> None:
    with pytest.raises(MisuseError, match="budgets"):
        Runtime(":memory:", budgets=wrong)


class Timers:
    """The timers of a loop, and a wall clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = DAY - 90_000
        self.waits: list[float] = []
        self.wake: Any = None
        monkeypatch.setattr(budgets, "now_ms", lambda: self.now)
        loop = asyncio.get_running_loop()

        def later(delay: float, wake: Any) -> asyncio.TimerHandle:
            self.waits.append(delay)
            self.wake = wake
            return loop.call_at(loop.time() + 3_600, wake)

        monkeypatch.setattr(loop, "call_later", later)


def test_a_call_that_waits_is_looked_at_each_minute_and_at_the_end_of_its_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        timers = Timers(monkeypatch)
        shared = SharedBudgets({"*": Budget(tokens=100, per="day")}, MemoryLog())
        given: list[Given | Refused] = []
        keys = [CallKey(name, 1, "host", 1, 1) for name in ("a", "b")]
        for key in keys:
            shared.begin(key.session, 1, ())
        assert isinstance(shared.request(keys[0], SCOPES, Need(60)), Given)
        assert shared.request(keys[1], SCOPES, Need(60)) is None
        shared.wait(keys[1], given.append)
        assert timers.waits == [60.0]
        timers.now += 60_000
        timers.wake()
        assert (given, timers.waits) == ([], [60.0, 30.0])
        timers.now += 30_000
        timers.wake()
        assert given == [Given((("*", "1970-01-02"),))]
        assert len(timers.waits) == 2
        shared.close()

    asyncio.run(body())


def test_a_call_that_waits_is_answered_once_and_not_after_it_was_cancelled() -> None:
    async def body() -> None:
        shared = SharedBudgets({"*": Budget(tokens=100)}, MemoryLog())
        given: list[tuple[str, object]] = []
        keys = [CallKey(name, 1, "host", 1, 1) for name in ("a", "b", "c")]
        for key in keys:
            shared.begin(key.session, 1, ())
        shared.request(keys[0], SCOPES, Need(60))
        for key in keys[1:]:
            assert shared.request(key, SCOPES, Need(60)) is None
            shared.wait(key, lambda answer, key=key: given.append((key.session, answer)))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
        shared.cancel(keys[1])
        settled = Settlement(Reservation(keys[0], Need(60), (("*", ""),)), Need(10))
        for _ in range(2):
            shared.settle([settled])
        assert given == [("c", Given((("*", ""),)))]
        shared.leave("c")
        (found,) = (await shared.report()).scopes
        assert (found.spent_tokens, found.reserved_tokens, found.elsewhere_tokens) == (10, 0, 60)

    asyncio.run(body())


def test_without_budgets_there_is_nothing_to_report() -> None:
    async def body() -> None:
        async with Runtime(":memory:") as runtime:
            assert (await runtime.budgets()).scopes == ()

    asyncio.run(body())


@table("wrong", [8, {"m": 8}, {"m": {"calls": 8}}, {5: Capacity(calls=1)}, "m"])
def test_capacity_is_a_limit_for_each_model_name(wrong: Any) -> None:
    with pytest.raises(MisuseError, match=r"Capacity\(calls=8\)"):
        Runtime(":memory:", capacity=wrong)


def test_a_bucket_that_fills_gives_the_next_place_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(budgets, "monotonic_ms", lambda: now[0])

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
