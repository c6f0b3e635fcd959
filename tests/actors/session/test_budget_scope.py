"""The books of one scope: what fits, what never fits, and the amounts of sessions that run and of others."""

from typing import Any

from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.session.budget_keys import CallKey
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.budget_scope import NAMED_MAX, BudgetState, ScopeBooks
from tests.tables import table


def key(session: str, turn: int = 1) -> CallKey:
    return CallKey(session, 1, "host", turn, 1)


def books(**limits: Any) -> ScopeBooks:
    """Build a scope in which 10, 20 and 30 tokens, and as many micro-dollars and 100, are taken."""
    made = ScopeBooks("t:*=t:a", Budget(**limits), "2026-11")
    made.spent.add(Need(10, 110))
    made.reserve(key("a"), Need(20, 120), is_running=True)
    made.reserve(key("b"), Need(30, 130), is_running=False)
    return made


@table(
    ("limits", "need", "fits", "refused"),
    [
        ({"tokens": 100}, Need(40), True, ()),
        ({"tokens": 100}, Need(41), False, ()),
        ({"tokens": 100}, Need(60), False, ()),
        ({"tokens": 100}, Need(61), False, ("tokens", 100, 10, 30)),
        ({"tokens": 100}, Need(0, 999_999), True, ()),
        ({"cost_usd": 0.001}, Need(0, 640), True, ()),
        ({"cost_usd": 0.001}, Need(0, 641), False, ()),
        ({"cost_usd": 0.001}, Need(0, 760), False, ()),
        ({"cost_usd": 0.001}, Need(0, 761), False, ("micro_usd", 1_000, 110, 130)),
        ({"cost_usd": 0.001}, Need(999_999), True, ()),
        ({"cost_usd": 0.001, "tokens": 100}, Need(40, 641), False, ()),
        ({"cost_usd": 0.001, "tokens": 100}, Need(61, 761), False, ("tokens", 100, 10, 30)),
    ],
)
def test_a_call_fits_beside_all_amounts_and_never_beside_what_no_process_gives_back(
    limits: dict[str, Any], need: Need, fits: bool, refused: tuple[Any, ...]
) -> None:
    made = books(**limits)
    assert made.has_room(need) is fits
    assert made.refusal(need) == (("t:*=t:a", "2026-11", *refused, ("b",)) if refused else None)


def test_a_reservation_elsewhere_counts_once_and_goes_where_it_came_from() -> None:
    made = books(tokens=100)
    made.reserve(key("b"), Need(30, 130), is_running=False)
    made.line = [4, 5]
    budget = Budget(tokens=100)
    amounts = (10, 0.00011, 20, 0.00012, 30, 0.00013)
    assert made.state() == BudgetState("t:*=t:a", "t:*", budget, "2026-11", *amounts, ("b",), 2)
    made.release(key("a"), Need(20, 120))
    assert (made.reserved.tokens, made.reserved.micro_usd, made.held.tokens) == (0, 0, 30)
    made.release(key("b"), Need(30, 130))
    assert (made.reserved.tokens, made.held.tokens, made.held.micro_usd, made.sessions) == (0, 0, 0, ())
    made.reserve(key("a"), Need(20), is_running=True)
    made.release(key("a"), Need(20))
    assert made.reserved.tokens == 0


def test_a_new_period_begins_with_nothing() -> None:
    made = books(tokens=100)
    made.begin("2026-12")
    assert made.state() == BudgetState("t:*=t:a", "t:*", Budget(tokens=100), "2026-12")
    assert not made.has_room(Need(101))
    assert made.has_room(Need(100))
    assert made.refusal(NOTHING) is None


def test_a_refusal_names_a_dozen_sessions_each_once() -> None:
    made = ScopeBooks("*", Budget(tokens=1), "")
    for n in range(20):
        for turn in (1, 2):
            made.reserve(key(f"s{n:02}", turn), Need(1), is_running=False)
    assert NAMED_MAX == 12
    assert made.sessions == tuple(f"s{n:02}" for n in range(12))
