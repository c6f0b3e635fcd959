"""A connection that is cut at its n-th statement, before or after the server has it, for every n.

Whatever a log does, it does it once: all answers are those of a log whose connection was never cut.
"""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import CallKey, Reservation, Settlement, SpendingChange
from callboard.actors.session.usage_books import Charge
from callboard.runtime.log.hash_chain import HashChain
from callboard.runtime.log.postgres.link import Cut, Link
from callboard.runtime.log.postgres.meta import prepare
from callboard.runtime.log.postgres.store import Memory, PostgresStore
from callboard.runtime.log.protocol import GENESIS, Append
from callboard.runtime.log.session_rows import EVERY_SESSION
from callboard.runtime.log.spending import BudgetLimit
from tests.effort import effort
from tests.runtime.log.kit import events, large
from tests.runtime.log.postgres.places import OnServer, on_server, taken

STEP = effort(7, 1)
"""The suite cuts at every seventh statement, the campaign at each."""

SPANS = (("*", "2026"),)


def reserved(turn: int) -> Reservation:
    return Reservation(CallKey("a", 1, "host", turn, 1), Need(10, 1), SPANS)


def work(place: OnServer) -> list[object]:
    """Let a store do everything that changes a log. Return all that it says."""
    link, chain, said = Link(place.log().address), HashChain(), list[object]()
    store = PostgresStore(link, chain, prepare(link, chain, None), Memory())
    for at, name in enumerate("ab"):
        said.append(store.create(name, at, f"title of {name}", GENESIS))
    said.append(store.spending.reserve(reserved(1), [BudgetLimit(*SPANS[0], tokens=15)]))
    said.append(store.spending.reserve(reserved(2), [BudgetLimit(*SPANS[0], tokens=15)]))
    changes: list[SpendingChange] = [Settlement(reserved(1), Need(7, 1)), reserved(3)]
    charges = [Charge("d", "m", "p", Usage(5))]
    first = Append("a", 0, 1, [*events(1, 3), large(4)], changes, charges)
    said += store.append([first, Append("b", 0, 1, events(1, 2)), Append("x", 0, 1, events(1, 1))])
    said.append(store.fork("f", 5, "a fork", "a", 3, events(4, 5)))
    store.set_waiting("b", 77)
    said.append(taken(store, "a")[1])
    epoch = taken(store, "b")[0]  # maybe raised twice: that is all that a cut may change
    said += store.append([Append("b", 2, epoch, [large(3), *events(4, 6)])])
    said.append(store.change_spending(lambda one: one.hand_over("a", 9, (), (), 8)))
    said += [store.delete("a", keep_forks=True), store.delete("b", keep_forks=False)]
    while store.purge():
        pass
    rows = [replace(row, number=0) for row in store.sessions(EVERY_SESSION)]  # undone ones use numbers up
    said += [store.read("f", 1, 99), rows, store.spending.usage()]
    said += [store.spending.read(), store.spending.unlogged()]
    link.close()
    return [f"{type(one).__name__} {one}" if isinstance(one, Exception) else one for one in said]


def cut_at(monkeypatch: pytest.MonkeyPatch, number: int, *, before: bool) -> Callable[[], bool]:
    """Cut the connection at this statement, counted from 1. Return whether it was reached."""
    real: Any = Link.execute
    counted = itertools.count(1)
    reached: list[str] = []

    def execute(self: Link, query: str, values: Any = (), doing: str = "") -> list[Any]:
        if next(counted) != number or reached:
            done: list[Any] = real(self, query, values, doing)
            return done
        reached.append(query)
        if not before:
            real(self, query, values, doing)
        self.drop()
        raise Cut

    monkeypatch.setattr(Link, "execute", execute)
    return lambda: bool(reached)


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
def test_a_cut_at_any_statement_changes_no_answer(before: bool) -> None:
    with on_server() as place:
        wanted = work(place)
    for number in range(1, 400, STEP):
        with on_server() as place, pytest.MonkeyPatch.context() as patched:
            was_reached = cut_at(patched, number, before=before)
            assert work(place) == wanted, (number, before)
        if not was_reached():
            assert number > 60
            return
    pytest.fail("a log needs more statements than that")
