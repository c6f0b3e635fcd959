"""Binding sessions by budgets: the scopes of their tags, prices, and damaged rows."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callboard import Agent, Budget, Runtime, ScriptedModel, say
from callboard.actors.protocol.addresses import BUDGETS
from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import AnyMessage, TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import BudgetGiven, CallModel, ModelReplied, RequestBudget
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import BudgetKeys, CallKey, Reservation
from callboard.actors.session.budget_scope import Spent
from callboard.actors.session.usage_books import UsageBooks
from callboard.errors import CorruptLog, MissingBudgets, MisuseError
from callboard.log import MemoryLog
from callboard.runtime.budgets import SharedBudgets
from callboard.runtime.log.spending import Spending
from callboard.runtime.ports.capacity_port import BudgetPort
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.budgeting import UNBOUND, Bound, Budgeting
from callboard.runtime.sessions.resuming import RecordedSession

OPENED = SessionOpened(2, "host", (), ModelSpec("m"), tags=("t:a",))
HOST = Agent("host", model=ScriptedModel(lambda request: say("done")))


def budgeting(**budgets: Budget) -> Budgeting:
    return Budgeting(
        SharedBudgets({name.replace("_", ":*"): one for name, one in budgets.items()}, MemoryLog())
    )


def test_a_session_is_bound_by_the_scopes_of_its_tags() -> None:
    bound = budgeting(batch=Budget(tokens=5), t_=Budget(tokens=5)).bind(OPENED, ["t:a", "batch"], "m")
    assert bound.scopes == ("batch", "t:*=t:a")


def test_without_a_scope_nothing_is_added_or_kept() -> None:
    made = budgeting(batch=Budget(tokens=5))
    assert made.bind(OPENED, ["other"], "m") is OPENED
    bound = made.begin("s", 1, ())
    assert (bound.scopes, bound.keys) == ((), None)


def test_an_unknown_price_matters_only_where_a_cost_budget_binds() -> None:
    made = budgeting(batch=Budget(cost_usd=5), t_=Budget(tokens=5))
    assert made.bind(OPENED, ["t:a"], "m").scopes == ("t:*=t:a",)
    assert made.bind(OPENED, ["batch"], "").scopes == ("batch",)
    with pytest.raises(MisuseError, match="the budget 'batch' limits cost"):
        made.bind(OPENED, ["batch"], "m")


# --- sessions that go on ----------------------------------------------------------------

SPANS = (("t:*=t:a", ""),)
OLD = Reservation(CallKey("s", 1, "host", 1, 1), Need(40), SPANS)
LOST = Reservation(CallKey("s", 1, "host.1", 1, 1), Need(9), SPANS)
CALLED: tuple[tuple[str, str, AnyMessage], ...] = (
    ("client", "supervisor", OPENED),
    ("host", "supervisor", TurnRequested(1, need=Need(40))),
    ("supervisor", "budgets", RequestBudget("host", 1, 1, Need(40))),
    ("budgets", "supervisor", BudgetGiven("host", 1, 1, "given", SPANS)),
    ("supervisor", "model", CallModel("host", 2)),
)
FORKED = ("client", "supervisor", Forked("o", 5, "", Resumed(2)))
REUSED = ("model", "host", ModelReplied(1, 1, reused=3))
SETTLED = ("host", "supervisor", TurnSettled(Usage(output_tokens=7)))


def logged(*posts: tuple[str, str, AnyMessage]) -> tuple[Event, ...]:
    return tuple(Event(seq, 0, sender, to, 0, body) for seq, (sender, to, body) in enumerate(posts, 1))


def recorded(*posts: tuple[str, str, AnyMessage], **fields: Any) -> RecordedSession:
    return RecordedSession(logged(*(posts or CALLED)), **fields)


class Store:
    """Spending of one scope, with two open reservations. given: the reservations that were handed over."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []

    async def read(self, scopes: object = None) -> Spending:
        return Spending((Spent("t:*=t:a", "", Need(100)),), (OLD, LOST))

    async def hand_over(self, *arguments: Any) -> None:
        self.given.append(arguments)


class Shared(SharedBudgets):
    """Shared budgets that note the sessions which begin. kept: in their store."""

    def __init__(self) -> None:
        self.kept = Store()
        self.begun: list[tuple[object, ...]] = []
        super().__init__({"t:*": Budget(tokens=500)}, cast("Any", SimpleNamespace(spending=self.kept)))

    def begin(self, session: str, epoch: int, held: Any) -> list[Reservation]:
        self.begun.append((session, epoch, tuple(held)))
        return super().begin(session, epoch, held)

    @property
    def spent(self) -> list[int]:
        return [one.spent_tokens for one in self._policy.states(1)]


def usage_after(books: UsageBooks | None, *posts: tuple[str, str, AnyMessage]) -> list[int]:
    """Return the tokens of the charges that messages make."""
    assert books is not None
    return [one.usage.tokens for one in books.take(logged(*posts))]


def test_a_session_whose_budgets_are_gone_goes_on_only_if_changes_are_accepted() -> None:
    made = Budgeting(Shared())
    for scopes in ((), ("t:*=t:a",)):
        made.check("s", "m", "refuse", recorded(scopes=scopes))
    gone = recorded(scopes=("t:*=t:b", "batch", "t:*=t:a"))
    made.check("s", "m", "accept", gone)
    with pytest.raises(MissingBudgets, match=r"session s was begun under the budgets 'batch', 't:\*', which"):
        made.check("s", "m", "refuse", gone)
    costs = budgeting(t_=Budget(cost_usd=5))
    costs.check("s", "", "refuse", recorded())
    with pytest.raises(MisuseError, match=r"prices of model 'm'"):
        costs.check("s", "m", "refuse", recorded())


def test_a_new_session_begins_with_its_scopes_and_no_reservations() -> None:
    shared = Shared()
    bound = Budgeting(shared).begin("s", 3, SPANS[0][:1])
    assert (bound.scopes, shared.begun) == (("t:*=t:a",), [("s", 3, ())])
    assert isinstance(bound.keys, BudgetKeys)
    opened = bound.keys.take(logged(*CALLED))
    assert opened == [OLD._replace(key=CallKey("s", 3, "host", 1, 1))]
    assert usage_after(bound.usage, *CALLED[1:], REUSED, SETTLED) == [7]


def test_a_fork_begins_with_the_amounts_spent_and_its_reused_answers_cost_nothing() -> None:
    async def body() -> None:
        shared = Shared()
        with pytest.raises(MisuseError, match="prices of model 'm'"):
            await budgeting(t_=Budget(cost_usd=5)).begin_fork("f", recorded(), "m")
        bound = await Budgeting(shared).begin_fork("f", recorded(), "m")
        assert (bound.scopes, shared.begun, shared.spent) == (("t:*=t:a",), [("f", 1, ())], [100])
        assert bound.keys is not None
        bound.know(logged(FORKED))
        assert (bound.keys.epoch, bound.keys.open) == (1, ())
        assert usage_after(bound.usage, REUSED, SETTLED) == []
        waits = await Budgeting(Shared()).begin_fork("f", recorded(*CALLED[:3]), "m")
        assert waits.keys is not None
        (one,) = waits.keys.take(logged(FORKED, CALLED[3]))
        assert one == OLD._replace(key=CallKey("f", 1, "host", 1, 1))
        free = await Budgeting(SharedBudgets(None, MemoryLog())).begin_fork("f", recorded(), "m")
        assert (free.scopes, free.keys) == ((), None)
        assert usage_after(free.usage, SETTLED) == [7]  # the call in flight at its base

    asyncio.run(body())


def test_a_session_that_goes_on_hands_its_reservations_over_and_the_others_are_charged() -> None:
    async def body() -> None:
        shared = Shared()
        bound = await Budgeting(shared).go_on("s", 2, recorded())
        held = OLD._replace(key=CallKey("s", 2, "host", 1, 1))
        assert shared.begun == [("s", 2, (held,))]
        assert [one[:4] for one in shared.kept.given] == [("s", 2, (held,), [LOST])]
        assert shared.kept.given[0][4] > 1_000_000_000_000
        assert shared.spent == [109]
        assert (bound.scopes, bound.keys and bound.keys.open) == (("t:*=t:a",), (held,))
        assert usage_after(bound.usage, REUSED, SETTLED) == [7]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("tags", "is_bound", "is_kept"), [((), False, False), ((), True, True), (("t:a",), False, True)]
)
def test_a_session_that_no_budget_binds_or_did_hands_nothing_over(
    tags: tuple[str, ...], is_bound: bool, is_kept: bool
) -> None:
    async def body() -> None:
        shared = Shared()
        opened = ("client", "supervisor", SessionOpened(2, "host", (), ModelSpec("m"), tags=tags))
        log = recorded(opened, *CALLED[1:], **({"is_bound": True} if is_bound else {}))
        bound = await Budgeting(shared).go_on("s", 2, log)
        assert (len(shared.kept.given), bound.keys is not None) == (is_kept, is_kept)
        assert usage_after(bound.usage, SETTLED) == [7]
        shared.store = None
        assert (await Budgeting(shared).go_on("s", 2, log)).keys is None

    asyncio.run(body())


def test_the_books_of_a_fork_that_goes_on_leave_reused_answers_out() -> None:
    async def body() -> None:
        bound = await Budgeting(SharedBudgets(None, MemoryLog())).go_on("f", 2, recorded(*CALLED, FORKED))
        assert usage_after(bound.usage, REUSED, SETTLED) == []

    asyncio.run(body())


def test_a_board_gets_what_its_session_is_bound_by() -> None:
    board = cast("Any", SimpleNamespace(ports={}, takers={}, stage=print, on_failure=print, session_id="s"))
    made = Budgeting(Shared())
    made.connect(cast("Board", board), Bound())
    assert (board.ports, board.stage) == ({}, print)
    made.connect(cast("Board", board), Bound(usage=UsageBooks()))
    assert board.ports == {}
    assert board.stage is not print
    made.connect(cast("Board", board), Bound(SPANS[0][:1], BudgetKeys("s", 1)))
    assert isinstance(board.ports[BUDGETS], BudgetPort)


def test_a_damaged_row_of_a_budget_lets_no_session_of_it_begin(tmp_path: Path) -> None:
    path = tmp_path / "log.db"

    async def once(*tags: str) -> str:
        async with Runtime(path, budgets={"t:*": Budget(tokens=10_000_000)}) as runtime:
            return (await runtime.run(HOST, "go", tags=tags)).kind

    assert asyncio.run(once("t:a")) == "answered"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE budgets SET tokens = 'many'")
    with pytest.raises(CorruptLog, match="the row of a budget is damaged"):
        asyncio.run(once("t:a"))
    assert asyncio.run(once("t:b")) == "answered"
    assert asyncio.run(once()) == "answered"


# --- the events that a store has already ------------------------------------------------

STORED = [
    Event(1, 0, "host", "supervisor", 0, TurnRequested(1, need=Need(40))),
    Event(2, 0, "supervisor", "budgets", 1, RequestBudget("host", 1, 1, Need(40))),
    Event(3, 0, "budgets", "supervisor", 2, BudgetGiven("host", 1, 1, "given", (("*", ""),))),
    Event(4, 0, "supervisor", "model", 3, CallModel("host", 1)),
]


def test_both_books_know_the_events_that_are_stored_already() -> None:
    keys, usage = BudgetKeys("s", 1), UsageBooks()
    Bound(("*",), keys, usage).know(STORED)
    assert [one.need for one in keys.open] == [Need(40)]
    settled = Event(5, 0, "host", "supervisor", 4, TurnSettled(Usage(7)))
    assert [one.usage.tokens for one in usage.take([settled])] == [7]
    UNBOUND.know(STORED)
