"""The reservations that a log holds open, and the changes of spending that each event makes."""

from collections.abc import Sequence

from callboard.actors.protocol.client_messages import Forked, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import (
    AnyMessage,
    Delegate,
    Finished,
    ReportBack,
    Stopped,
    TurnRequested,
    TurnSettled,
    Wake,
)
from callboard.actors.protocol.port_messages import BudgetGiven, CallModel, RequestBudget, SettleBudget
from callboard.actors.protocol.usage import Need, Usage
from callboard.actors.protocol.value_types import Settled
from callboard.actors.session.budget_keys import (
    BudgetKeys,
    CallKey,
    Reservation,
    Settlement,
    SpendingChange,
    open_in,
)
from tests.tables import table

SPANS = (("*", "2026-11-28"),)
ONE = Reservation(CallKey("s", 3, "host.1", 1, 2), Need(100, 7), SPANS)
WISH = ("supervisor", "budgets", RequestBudget("host.1", 1, 2, Need(100, 7)))
GIVEN = ("budgets", "supervisor", BudgetGiven("host.1", 1, 2, "given", SPANS))
CALL = ("supervisor", "model", CallModel("host.1", 4))


def events(*posts: tuple[str, str, AnyMessage]) -> list[Event]:
    return [Event(seq, 0, *post[:2], 0, post[2]) for seq, post in enumerate(posts, 1)]


def changes(*posts: tuple[str, str, AnyMessage]) -> Sequence[SpendingChange]:
    return BudgetKeys("s", 3).take(events(*posts))


def test_a_given_budget_opens_a_reservation_of_the_need_that_was_asked_for() -> None:
    assert changes(WISH, GIVEN) == [ONE]


def test_a_refused_one_or_one_that_reserves_nothing_opens_none() -> None:
    for body in (BudgetGiven("host.1", 1, 1, "refused", SPANS), BudgetGiven("host.1", 1, 1, "given")):
        assert changes(WISH, ("budgets", "supervisor", body)) == []


def test_the_settlement_of_its_agent_closes_a_call_with_its_usage_in_tokens_and_money() -> None:
    usage = Usage(1, 2, 3, 4, micro_usd=5)
    said = ("host.1", "supervisor", TurnSettled(usage))
    assert changes(WISH, GIVEN, CALL, said) == [ONE, Settlement(ONE, Need(10, 5))]
    wants = ("host.1", "supervisor", TurnRequested(2, 1, settled=Settled(None)))
    assert changes(WISH, GIVEN, CALL, wants)[1:] == [Settlement(ONE, Need(100, 7))]


@table(
    "body",
    [
        TurnRequested(2, settled=Settled(Usage(4))),
        Delegate(1, 1, ("kid",), NULL, settled=Settled(Usage(4))),
        Wake(5, settled=Settled(Usage(4))),
        ReportBack(1, 1, NULL, settled=Settled(Usage(4))),
        Finished("answered", settled=Settled(Usage(4))),
        Stopped(Settled(Usage(4))),
    ],
)
def test_each_kind_of_message_that_states_a_settlement_closes_its_call(body: AnyMessage) -> None:
    assert changes(WISH, GIVEN, CALL, ("host.1", "supervisor", body))[1:] == [Settlement(ONE, Need(4))]


def test_no_message_of_another_agent_closes_it() -> None:
    assert changes(WISH, GIVEN, CALL, ("host", "supervisor", TurnSettled())) == [ONE]


def test_a_message_without_a_settlement_leaves_it_to_the_supervisor() -> None:
    left = ("host.1", "supervisor", Stopped())
    charge = ("supervisor", "budgets", SettleBudget("host.1", 1, 1, 60, 4))
    assert changes(WISH, GIVEN, CALL, left) == [ONE]
    assert changes(WISH, GIVEN, CALL, left, charge)[1:] == [Settlement(ONE, Need(60, 4))]
    assert changes(WISH, GIVEN, charge, charge) == [ONE, Settlement(ONE, Need(60, 4))]


def test_the_open_reservations_of_a_log_go_over_to_the_process_that_goes_on() -> None:
    assert open_in("s", 3, events(WISH, GIVEN, CALL)).open == (ONE,)
    done = ("host.1", "supervisor", TurnSettled())
    assert open_in("s", 3, events(WISH, GIVEN, CALL, done)).open == ()


def test_a_fork_takes_over_none_of_its_origin() -> None:
    forked = ("client", "supervisor", Forked("s", 3, "", Resumed(2)))
    done = ("host.1", "supervisor", TurnSettled())
    assert changes(WISH, GIVEN, CALL, forked, done) == [ONE]
    assert changes(WISH, forked, GIVEN) == [ONE]  # asked for again by the fork, with the same need
