"""The spending of budgets beside the events: one contract for every store, and the net of changes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from callboard.actors.protocol.errors import HasForks, SessionNotFound, StoreFailed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stopped
from callboard.actors.protocol.usage import ZERO, Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.budget_scope import Spent
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append, EventLog
from callboard.runtime.log.spending import (
    MemorySpending,
    NetChanges,
    Spending,
    Unlogged,
    UsageRow,
    summed,
    total,
)
from callboard.runtime.log.sqlite.log import SQLiteLog

SPANS = (("*", "2026-11"), ("tenant:*=tenant:a", "2026-11-28"))


def call(turn: int = 1, epoch: int = 1, session: str = "s", tokens: int = 100) -> Reservation:
    return Reservation(CallKey(session, epoch, "host.1", turn, 1), Need(tokens, tokens // 2), SPANS)


def test_a_reservation_that_opens_and_ends_among_the_changes_is_only_a_charge() -> None:
    net = NetChanges([call(1), call(2), Settlement(call(1), Need(30, 3)), Settlement(call(9), Need(5))])
    assert (list(net.opened.values()), net.closed) == ([call(2)], [call(9).key])
    assert net.charges == dict.fromkeys(SPANS, Need(35, 3))


def test_a_reservation_that_the_store_may_have_is_closed_as_well() -> None:
    net = NetChanges([call(1), Settlement(call(1), Need(30, 3))], is_reserved=True)
    assert (net.opened, net.closed) == ({}, [call(1).key])


def test_a_call_that_was_not_made_charges_no_scope_and_one_of_money_alone_does() -> None:
    assert NetChanges([call(1), Settlement(call(1), Need())]).charges == {}
    for amount in (Need(7, 0), Need(0, 7)):
        assert NetChanges([Settlement(call(1), amount)]).charges == dict.fromkeys(SPANS, amount)


# --- the contract -------------------------------------------------------------------


class Store:
    """A log with one session, and its next event."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        assert log.spending is not None
        self.spending = log.spending
        self.seq = 0

    async def append(self, *changes: SpendingChange, head: int | None = None, sender: str = "host") -> object:
        self.seq += 1
        event = Event(self.seq, 5, sender, "supervisor", 0, Stopped())
        at = self.seq - 1 if head is None else head
        (answer,) = await self.log.append([Append("s", at, 1, [event], changes)])
        return answer

    async def amounts(self) -> list[tuple[str, int, int]]:
        return [(one.scope, *_pair(one)) for one in (await self.spending.read()).spent]


def _pair(one: Spent) -> tuple[int, int]:
    return one.amount.tokens, one.amount.micro_usd


Scenario = Callable[[Store], Awaitable[None]]


def every_store(scenario: Scenario) -> object:
    """Run a scenario on a store of each kind, with an empty session `s`."""

    @pytest.mark.parametrize("kind", ["memory", "sqlite", "encrypted"])
    def test(kind: str, tmp_path: Path) -> None:
        async def with_log() -> None:
            key = b"k" * 32 if kind == "encrypted" else None
            file = tmp_path / "log.db"
            log: EventLog = MemoryLog() if kind == "memory" else SQLiteLog(file, encryption_key=key)
            await log.open()
            await log.create("s", 0, "")
            await scenario(Store(log))
            await log.close()

        asyncio.run(with_log())

    return test


@every_store
async def test_a_reservation_is_stored_with_its_event_and_its_settlement_too(store: Store) -> None:
    await store.append(call(1), call(2))
    assert await store.spending.read() == Spending((), (call(1), call(2)))
    await store.append(Settlement(call(1), Need(30, 3)))
    assert (await store.spending.read()).reserved == (call(2),)
    assert await store.amounts() == [("*", 30, 3), ("tenant:*=tenant:a", 30, 3)]
    await store.append(Settlement(call(2), Need(12, 0)))
    assert await store.amounts() == [("*", 42, 3), ("tenant:*=tenant:a", 42, 3)]


@every_store
async def test_events_that_are_refused_change_no_spending(store: Store) -> None:
    await store.append(call(1))
    assert isinstance(await store.append(Settlement(call(1), Need(30, 3)), head=7), Exception)
    assert await store.spending.read() == Spending((), (call(1),))
    store.seq = 1
    assert isinstance(await store.append(Settlement(call(1), Need(30, 3)), sender="\ud800"), StoreFailed)
    assert await store.spending.read() == Spending((), (call(1),))


@every_store
async def test_only_the_scopes_that_are_asked_for_are_read(store: Store) -> None:
    await store.append(call(1), call(2), Settlement(call(1), Need(30, 3)))
    found = await store.spending.read(["tenant:*=tenant:a"])
    assert found == Spending((Spent("tenant:*=tenant:a", "2026-11-28", Need(30, 3)),), (call(2),))
    assert await store.spending.read(["batch"]) == Spending()


@every_store
async def test_a_resume_hands_over_what_its_log_holds_open_and_charges_the_rest_once(store: Store) -> None:
    await store.append(call(1), call(2))
    lost = [call(3)]
    for _ in range(2):  # the second one is of a process that crashed before it noted the first
        await store.spending.hand_over("s", 2, [call(1, 2)], lost, 77)
        lost = []
    assert (await store.spending.read()).reserved == (call(1, 2),)
    assert await store.amounts() == [("*", 200, 100), ("tenant:*=tenant:a", 200, 100)]
    assert await store.spending.unlogged() == [Unlogged(call(2), 77), Unlogged(call(3), 77)]
    await store.append(Settlement(call(1, 2), Need(1, 1)))
    assert (await store.spending.read()).reserved == ()
    assert await store.amounts() == [("*", 201, 101), ("tenant:*=tenant:a", 201, 101)]


@every_store
async def test_the_reservations_of_other_sessions_stay(store: Store) -> None:
    await store.append(call(1), call(1, session="t"))
    assert await store.spending.hand_over("s", 2, [], [], 77) == [call(1)]
    assert (await store.spending.read()).reserved == (call(1, session="t"),)
    await store.append(call(2, epoch=2))
    assert await store.spending.hand_over("s", 2, [], [], 78) == [], "it is this epoch's own"
    assert (await store.spending.read()).reserved == (call(2, epoch=2), call(1, session="t"))


@every_store
async def test_deleting_a_session_lowers_no_budget_and_charges_its_open_calls(store: Store) -> None:
    await store.append(call(1), call(2), Settlement(call(1), Need(30, 3)))
    await store.log.delete("s")
    assert await store.amounts() == [("*", 130, 53), ("tenant:*=tenant:a", 130, 53)]
    assert await store.spending.unlogged() == [Unlogged(call(2), 5)]
    assert (await store.spending.read()).reserved == ()


ONE, TWO = Usage(1, 2, 3, 4, 5, 6, 1, 0), Usage(10, micro_usd=7, calls=1, unknown_calls=1)
BOTH = Usage(11, 2, 3, 4, 5, 13, 2, 1)


def charge(usage: Usage, day: str = "2026-11-28", model: str = "m") -> Charge:
    return Charge(day, model, "host", usage)


def test_charges_are_summed_by_day_model_and_profile() -> None:
    found = summed([charge(ONE), charge(TWO), charge(ONE, model="n")])
    assert found == {("2026-11-28", "m", "host"): BOTH, ("2026-11-28", "n", "host"): ONE}
    assert total([ONE, TWO]) == BOTH
    assert total([]) == ZERO


@pytest.mark.parametrize("kind", ["memory", "sqlite", "encrypted"])
def test_a_store_adds_replaces_and_drops_usage(kind: str, tmp_path: Path) -> None:
    key = b"k" * 32 if kind == "encrypted" else None
    log: EventLog = MemoryLog() if kind == "memory" else SQLiteLog(tmp_path / "log", encryption_key=key)

    async def append(seq: int, *charges: Charge) -> object:
        event = Event(seq, 5, "host", "supervisor", 0, Stopped())
        (answer,) = await log.append([Append("s", seq - 1, 1, [event], (), charges)])
        return answer

    async def body() -> None:
        await log.open()
        await log.create("s", 0, "")
        await append(1, charge(ONE))
        await append(2, charge(TWO), charge(ONE, day="2026-11-29"))
        assert isinstance(await append(9, charge(ONE)), Exception)
        first = UsageRow("s", "2026-11-28", "m", "host", BOTH)
        second = UsageRow("s", "2026-11-29", "m", "host", ONE)
        assert await log.usage() == [first, second]
        assert await log.usage("2026-11-29") == [second]
        (row,) = await log.sessions()
        assert row.usage == total([BOTH, ONE])
        await log.set_usage("s", [charge(TWO)])
        assert [one.usage for one in await log.usage()] == [TWO]
        with pytest.raises(SessionNotFound):
            await log.set_usage("t", [])
        await log.delete("s")
        assert await log.usage() == []
        await log.close()

    asyncio.run(body())


CALL = Reservation(CallKey("s", 1, "host", 1, 1), Need(5), (("*", ""),))


def test_a_list_of_charges_is_the_callers_own() -> None:
    spending = MemorySpending()
    spending.apply([CALL, Settlement(CALL, Need(5))])
    asyncio.run(spending.hand_over("s", 2, [], [CALL], 9))
    asyncio.run(spending.unlogged()).clear()
    assert asyncio.run(spending.unlogged()) == [Unlogged(CALL, 9)]


@every_store
async def test_a_session_that_may_not_be_deleted_keeps_its_reservations(store: Store) -> None:
    await store.append(call(1))
    await store.log.fork("f", 0, "", "s", 1)
    with pytest.raises(HasForks):
        await store.log.delete("s")
    assert await store.spending.read() == Spending((), (call(1),))
    await store.log.delete("s", keep_forks=True)
    assert (await store.spending.read()).reserved == ()
