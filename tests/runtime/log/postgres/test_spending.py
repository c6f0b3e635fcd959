"""The spending of budgets on a server: damage is found, and workers that share a budget lose no charge."""

import asyncio
from typing import Any

import pytest

from callboard.actors.protocol.errors import CorruptLog
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.log.protocol import Append, EventLog, Head
from callboard.runtime.log.spending import BudgetLimit
from tests.postgres_server import execute
from tests.runtime.log.kit import events, run
from tests.runtime.log.postgres.places import OnServer, on_server

SPANS = (("*", "2026-11"), ("user:*=user:7", "2026-11-29"))


def reserved(session: str, turn: int, epoch: int = 1) -> Reservation:
    return Reservation(CallKey(session, epoch, "host", turn, 1), Need(100, 7), SPANS)


def test_charges_of_many_writers_to_one_budget_are_all_counted(place: OnServer) -> None:
    async def work() -> None:
        logs = [place.log() for _ in range(3)]
        for log in logs:
            await log.open()
        names = [f"s{at}" for at in range(6)]
        for name in names:
            await logs[0].create(name, 1, "")

        async def write(at: int) -> None:
            for turn in range(5):
                batch = [
                    Append(
                        name,
                        turn,
                        1,
                        events(turn + 1, turn + 1),
                        [Settlement(reserved(name, turn), Need(3, 1))],
                    )
                    for name in names[at::3]
                ]
                answers = await logs[at].append(batch)
                assert all(isinstance(answer, Head) for answer in answers)

        await asyncio.gather(*map(write, range(3)))
        books = logs[0].spending
        spent = (await books.read(["*"])).spent
        assert [(one.scope, one.amount) for one in spent] == [("*", Need(90, 30))]
        for log in logs:
            await log.close()

    run(work)


def test_a_refused_append_charges_nothing_and_reserves_nothing(place: OnServer) -> None:
    async def work() -> None:
        log, other = place.log(), place.log()
        await log.open()
        await other.open()
        for name in "ab":
            await log.create(name, 1, "")
        await other.take_over("a")
        changes: list[SpendingChange] = [Settlement(reserved("a", 1), Need(9, 9)), reserved("a", 2)]
        fine: list[SpendingChange] = [Settlement(reserved("b", 1), Need(5, 5)), reserved("b", 2)]
        answers = await log.append(
            [Append("a", 0, 1, events(1, 1), changes), Append("b", 0, 1, events(1, 1), fine)]
        )
        assert [isinstance(answer, Head) for answer in answers] == [False, True]
        found = await log.spending.read()
        assert {one.amount for one in found.spent} == {Need(5, 5)}
        assert found.reserved == (reserved("b", 2),)
        await log.close()
        await other.close()

    run(work)


def test_what_a_crash_left_open_is_charged_once(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        await log.append([Append("s", 0, 1, events(1, 1), [reserved("s", 1), reserved("s", 2)])])
        epoch, _ = await log.take_over("s")
        handed: Any = ("s", epoch, [reserved("s", 2, epoch)], [], 5)
        assert await log.spending.hand_over(*handed) == [reserved("s", 1)]
        assert await log.spending.hand_over(*handed) == []
        found = await log.spending.read()
        assert found.reserved == (reserved("s", 2, epoch),)
        assert [one.amount for one in found.spent] == [Need(100, 7)] * 2
        assert [one.at_ms for one in await log.spending.unlogged()] == [5]
        other = BudgetLimit(*SPANS[1])  # handed-over amounts count as reserved, in addition to the charges
        fits = [
            await log.spending.reserve(reserved("s", 5), [BudgetLimit(*SPANS[0], tokens), other])
            for tokens in (299, 300)
        ]
        assert fits == [False, True]
        await log.close()

    run(work)


def test_many_writers_reserve_no_more_than_the_limit_and_each_call_once(place: OnServer) -> None:
    limits = [BudgetLimit("*", "2026-11", tokens=1_050), BudgetLimit("user:*=user:7", "2026-11-29")]

    async def work() -> None:
        logs = [place.log() for _ in range(4)]
        for log in logs:
            await log.open()
        await logs[0].create("s", 1, "")

        async def ask(at: int) -> int:
            granted = 0
            for turn in range(6):
                one = reserved("s", 10 * at + turn)
                first = await logs[at].spending.reserve(one, limits)
                assert await logs[at].spending.reserve(one, limits) is first or not first
                granted += first
            return granted

        assert sum(await asyncio.gather(*map(ask, range(4)))) == 10
        books = logs[0].spending
        held = await books.read()
        assert (len(held.reserved), held.spent) == (10, ())
        # A settlement of less than its reservation leaves room for the next one.
        ended: list[SpendingChange] = [Settlement(one, Need(10, 1)) for one in held.reserved[:2]]
        (head,) = await logs[1].append([Append("s", 0, 1, events(1, 1), ended)])
        assert isinstance(head, Head)
        assert [await books.reserve(reserved("s", turn), limits) for turn in (90, 91)] == [True, True]
        assert await books.reserve(reserved("s", 92), limits) is False
        assert await books.reserve(reserved("s", 92), [limits[0]._replace(tokens=None), limits[1]])
        assert (
            await books.reserve(reserved("s", 93), [limits[0]._replace(tokens=None, micro_usd=80)]) is False
        )
        await books.release(reserved("s", 90).key)
        assert (await books.read()).reserved == (*held.reserved[2:], *(reserved("s", at) for at in (91, 92)))
        for log in logs:
            await log.close()

    run(work)


def test_the_time_of_budgets_is_the_servers(place: OnServer) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        ((before,),) = execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        assert before <= await log.spending.now_ms() < before + 60_000
        await log.close()

    run(work)


@pytest.mark.parametrize(
    ("statement", "look"),
    [
        ("UPDATE {s}.budgets SET tokens = -1", "spending"),
        ("UPDATE {s}.reservations SET held = 'x'", "spending"),
        ("DELETE FROM {s}.reserved; UPDATE {s}.reservations SET call = '[]'", "spending"),
        ("INSERT INTO {s}.usage SELECT 1, 'd', 'm', 'p', -1, 0, 0, 0, 0, 0, 0, 0", "usage"),
    ],
)
def test_damaged_amounts_are_found_and_hide_no_session(place: OnServer, statement: str, look: str) -> None:
    async def work() -> None:
        log = place.log()
        await log.open()
        await log.create("s", 1, "")
        changes: list[SpendingChange] = [Settlement(reserved("s", 1), Need(3, 1)), reserved("s", 2)]
        await log.append([Append("s", 0, 1, events(1, 1), changes)])
        execute(statement.format(s=place.schema))
        with place.reader() as reader:
            with pytest.raises(CorruptLog, match="damaged"):
                getattr(reader, look)()
            assert len(reader.sessions()) == 1
        await log.close()

    run(work)


def charge(day: str, model: str, tokens: int) -> Charge:
    return Charge(day, model, "host", Usage(tokens, 2, 3, 4, 5, 6, 1, 0))


async def books_of(log: EventLog) -> list[object]:
    """Return what a log says of spending and usage while two sessions spend, crash and go."""
    books = log.spending
    assert books is not None
    said: list[object] = []

    async def look() -> None:
        said.append([await books.read(), await books.read(["*"]), await books.read([])])
        said.append([await log.usage(), await log.usage("2026-11-29"), await books.unlogged()])
        said.append([row.usage for row in await log.sessions()])

    await log.open()
    await look()
    for name in "st":
        await log.create(name, 1, "")
        first, second = charge("2026-11-28", "m", 1), charge("2026-11-29", "n", 10)
        changes: list[SpendingChange] = [reserved(name, 1), reserved(name, 2), reserved(name, 3)]
        await log.append([Append(name, 0, 1, events(1, 1), changes, [first, second, first])])
        await look()
    settled = Settlement(reserved("s", 1), Need(3, 1))
    await log.append([Append("s", 1, 1, events(2, 2), [settled], [charge("2026-11-29", "n", 5)])])
    await look()
    kept = [reserved("s", 2, 2), reserved("s", 4, 2)]
    said.append(await books.hand_over("s", 2, kept, [reserved("s", 9)], 77))
    await look()
    await log.set_usage("s", [charge("2026-11-30", "p", 7), charge("2026-11-30", "p", 8)])
    await look()
    await log.delete("t")
    await look()
    await log.close()
    return said


@pytest.mark.parametrize("encryption_key", [None, b"k" * 32])
def test_the_books_on_a_server_say_what_those_in_memory_say(encryption_key: bytes | None) -> None:
    with on_server(encryption_key) as place:
        assert run(lambda: books_of(place.log())) == run(lambda: books_of(MemoryLog()))
