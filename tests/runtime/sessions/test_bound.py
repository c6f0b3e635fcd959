"""The books of a session about its budgets and its usage: they know the events that a store has."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import BudgetGiven, CallModel, RequestBudget
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.session.budget_keys import BudgetKeys
from callboard.actors.session.usage_books import UsageBooks
from callboard.runtime.sessions.bound import UNBOUND, Bound

EVENTS = [
    Event(1, 0, "host", "supervisor", 0, TurnRequested(1, need=Need(40))),
    Event(2, 0, "supervisor", "budgets", 1, RequestBudget("host", 1, 1, Need(40))),
    Event(3, 0, "budgets", "supervisor", 2, BudgetGiven("host", 1, 1, "given", (("*", ""),))),
    Event(4, 0, "supervisor", "model", 3, CallModel("host", 1)),
]


def test_both_books_know_the_events_that_are_stored_already() -> None:
    keys, usage = BudgetKeys("s", 1), UsageBooks()
    Bound(("*",), keys, usage).know(EVENTS)
    assert [one.need for one in keys.open] == [Need(40)]
    settled = Event(5, 0, "host", "supervisor", 4, TurnSettled(Usage(7)))
    assert [one.usage.tokens for one in usage.take([settled])] == [7]
    UNBOUND.know(EVENTS)
