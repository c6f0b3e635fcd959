"""Budgets as scopes: what fits now, what fits later, what can never fit."""

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.port_messages import BudgetGiven
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage
from callboard.actors.supervisor.budgets import (
    charge_of,
    fits,
    kept_above,
    reserve,
    settle,
    shortage,
    shortage_above,
)
from callboard.actors.supervisor.reserve import Reserve, add
from callboard.actors.supervisor.state import Budget, Record
from tests.tables import table

ADDRESSES = ("host", "host.1", "host.1.1")


Account = tuple[Budget, Usage, Need, Reserve]
"""The limits of a scope, the usage so far, the reservations, and what its agent keeps."""


def ancestry(*accounts: Account) -> list[Record]:
    """Make records from the host down, with these accounts."""
    return [
        Record(address, 1, 1, Profile("p"), ModelSpec("m"), DEFAULTS, 0, *account)
        for address, account in zip(ADDRESSES, accounts, strict=False)
    ]


def account(tokens: int | None, spent: int = 0, reserved: int = 0, closing: int = 0) -> Account:
    return Budget(tokens), Usage(spent), Need(reserved), Reserve(turn=Need(closing))


def test_a_call_that_uses_the_last_token_fits_and_one_more_never_does() -> None:
    assert fits(ancestry(account(100, spent=60)), Need(40)) == ("now", ())
    assert fits(ancestry(account(100, spent=60)), Need(41)) == ("never", ("host",))


def test_what_calls_in_flight_have_reserved_is_waited_for_and_not_refused() -> None:
    assert fits(ancestry(account(100, spent=20, reserved=40)), Need(40)) == ("now", ())
    assert fits(ancestry(account(100, spent=20, reserved=40)), Need(41)) == ("later", ("host",))
    assert fits(ancestry(account(100, spent=20, reserved=40)), Need(81)) == ("never", ("host",))


def test_the_same_holds_for_cost() -> None:
    costed = Budget(None, 100), Usage(micro_usd=60), Need(0, 20), Reserve()
    assert fits(ancestry(costed), Need(10**9, 20))[0] == "now"
    assert fits(ancestry(costed), Need(10**9, 21))[0] == "later"
    assert fits(ancestry(costed), Need(10**9, 41))[0] == "never"


def test_a_shortage_tells_what_is_needed_spent_and_left_in_the_scope_that_is_too_small() -> None:
    tokens = ancestry(account(1_000, spent=600, closing=30), account(None, closing=20), account(None))
    assert shortage(tokens, Need(1_400), 0, rules=2) == (
        "it needs up to 1,400 tokens beside 50 tokens for closing turns; 400 tokens are left, "
        "600 of 1,000 are spent"
    )
    costed = Budget(10**9, 100), Usage(micro_usd=60), Need(0, 20), Reserve()
    assert shortage(ancestry(costed), Need(10, 41), 0, rules=1) == (
        "it needs up to 41 millionths of a US dollar; 40 millionths of a US dollar are left, "
        "60 of 100 are spent"
    )
    assert "; 0 tokens are left, 1,000 of 1,000 are spent" in shortage(
        ancestry(account(1_000, spent=1_000)), Need(5), 0, rules=2
    )


def test_one_token_is_left_two_are_and_former_rules_keep_their_words() -> None:
    one = ancestry(account(2, spent=1))
    assert shortage(one, Need(2), 0, rules=2) == "it needs up to 2 tokens; 1 token is left, 1 of 2 is spent"
    former = "it needs up to 2 tokens; 1 tokens are left, 1 of 2 are spent"
    assert shortage(one, Need(2), 0, rules=1) == former
    refused = BudgetGiven("host", 1, 1, "refused", (), "day", "", "tokens", 3, 2)
    above = "the budget 'day' is too small for another turn: it needs up to "
    assert shortage_above(Need(1), refused) == above + "1 token; 1 of 3 tokens is left"
    assert shortage_above(Need(9), replace(refused, spent=0)) == above + "9 tokens; 3 of 3 tokens are left"
    held = replace(refused, elsewhere=1, sessions=("s",))
    assert shortage_above(Need(9), held).endswith(
        "0 of 3 tokens are left, since calls of sessions that no process runs hold 1 token; resume them: s"
    )


def test_a_shortage_of_money_is_told_in_dollars() -> None:
    costed = Budget(None, 20_000), Usage(micro_usd=19_000), Need(), Reserve()
    assert shortage(ancestry(costed), Need(10, 15_100), 0, rules=2) == (
        "it needs up to $0.0151; $0.0010 is left, $0.0190 of $0.0200 is spent"
    )
    parent = Budget(None, 30_000), Usage(), Need(), Reserve(turn=Need(30, 20_000))
    below = Budget(), Usage(), Need(), Reserve()
    assert shortage(ancestry(parent, below), Need(10, 15_100), 0, rules=2) == (
        "it needs up to $0.0151 beside $0.0200 for closing turns; $0.0300 is left, $0 of $0.0300 is spent"
    )


def test_a_shortage_names_the_limit_that_is_too_small_and_never_less_than_nothing() -> None:
    both = Budget(100, 50), Usage(60, micro_usd=90), Need(), Reserve()
    assert shortage(ancestry(both), Need(40, 20), 0, rules=2) == (
        "it needs up to $0.00002; $0 is left, $0.00009 of $0.00005 is spent"
    )
    assert "it needs up to 41 tokens; 40 tokens are left" in shortage(
        ancestry(both), Need(41, 20), 0, rules=2
    )
    kept = ancestry(account(100, spent=60, closing=30), account(None))
    assert "it needs up to 11 tokens beside 30 tokens" in shortage(kept, Need(11), 0, rules=2)
    spent = ancestry(account(100, spent=130))
    for rules in (1, 2):
        assert "; 0 tokens are left, 130 of 100 are spent" in shortage(spent, Need(1), 0, rules)


@table(
    ("fields", "said"),
    [
        ({"spent": 30}, "it needs up to 1,200 tokens; 1,470 of 1,500 tokens are left"),
        ({"spent": 2_000}, "it needs up to 1,200 tokens; 0 of 1,500 tokens are left"),
        ({"unit": ""}, "it needs up to 1,200 tokens; 1,500 of 1,500 tokens are left"),
        ({"period": "2026-11"}, "; 1,500 of 1,500 tokens are left in 2026-11"),
        (
            {"spent": 1, "elsewhere": 9, "sessions": ("a", "b")},
            "; 1,490 of 1,500 tokens are left, since calls of sessions that no process runs hold "
            "9 tokens; resume them: a, b",
        ),
        ({"unit": "micro_usd", "spent": 500}, "it needs up to $0.0070; $0.0010 of $0.0015 is left"),
    ],
)
def test_a_shortage_above_tells_what_is_left_and_which_sessions_hold_it(
    fields: dict[str, Any], said: str
) -> None:
    scope = {"scope": "t:*=t:a", "unit": "tokens", "limit": 1_500, **fields}
    found = shortage_above(Need(1_200, 7_000), BudgetGiven("host", 1, 1, "refused", **scope))
    assert found.startswith("the budget 't:*=t:a' is too small for another turn: it needs up to ")
    assert found.endswith(said)


def test_each_record_comes_with_what_the_agents_above_the_lowest_keep() -> None:
    records = ancestry(account(9, closing=5), account(None, closing=7), account(3, closing=100))
    found = [(record.address, need) for record, need in kept_above(records)]
    assert found == [("host.1.1", NOTHING), ("host.1", Need(7)), ("host", Need(12))]
    assert list(kept_above(records[:1])) == [(records[0], NOTHING)]


def test_every_scope_above_is_asked_and_the_topmost_exhausted_one_comes_last() -> None:
    records = ancestry(account(100, reserved=90), account(None), account(50, reserved=50))
    assert fits(records, Need(20)) == ("later", ("host.1.1", "host"))
    assert fits(ancestry(account(100), account(10), account(50)), Need(20)) == ("never", ("host.1",))


def test_an_ancestors_closing_turn_is_kept_free_in_its_scope_and_all_above() -> None:
    records = ancestry(account(100, closing=30), account(None, closing=20), account(None, closing=1_000))
    assert fits(records, Need(50))[0] == "now"
    assert fits(records, Need(51)) == ("never", ("host",))
    inner = ancestry(account(None, closing=30), account(60, closing=20), account(None))
    assert fits(inner, Need(40))[0] == "now"
    assert fits(inner, Need(41)) == ("never", ("host.1",))


def test_ones_own_closing_turn_is_the_turn_itself() -> None:
    assert fits(ancestry(account(100, closing=90)), Need(100))[0] == "now"


def test_without_limits_everything_fits() -> None:
    assert fits(ancestry(account(None), account(None)), Need(10**12, 10**12)) == ("now", ())


NEEDS = st.builds(Need, st.integers(0, 50), st.integers(0, 50))
BOUNDS = st.one_of(st.none(), st.integers(0, 150))
ACCOUNTS = st.tuples(
    st.builds(Budget, BOUNDS, BOUNDS),
    st.builds(Usage, input_tokens=st.integers(0, 50), micro_usd=st.integers(0, 50)),
    NEEDS,
    st.builds(Reserve, NEEDS, NEEDS, NEEDS),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(ACCOUNTS, min_size=1, max_size=3), NEEDS)
def test_the_verdict_is_the_rule_spelled_out(accounts: list[Account], need: Need) -> None:
    """never: spent and need exceed a limit; later: with the reservations they do; now: they do not."""
    kept, can_ever, can_now = need, True, True
    for place in reversed(range(len(accounts))):
        budget, spent, reserved, own = accounts[place]
        kept = kept if place == len(accounts) - 1 else add(kept, own.total)
        for limit, gone, held, wanted in (
            (budget.tokens, spent.tokens, reserved.tokens, kept.tokens),
            (budget.micro_usd, spent.micro_usd, reserved.micro_usd, kept.micro_usd),
        ):
            can_ever &= limit is None or gone + wanted <= limit
            can_now &= limit is None or gone + held + wanted <= limit
    verdict, where = fits(ancestry(*accounts), need)
    assert verdict == ("now" if can_now else "later" if can_ever else "never")
    assert bool(where) == (verdict != "now")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(ACCOUNTS, min_size=1, max_size=3), NEEDS, NEEDS)
def test_settling_gives_back_what_was_reserved_and_charges_what_was_used(
    accounts: list[Account], need: Need, used: Need
) -> None:
    assume(need != NOTHING)
    before = ancestry(*accounts)
    usage = charge_of(need, Usage(input_tokens=used.tokens, micro_usd=used.micro_usd))
    after = list(before)
    after[-1] = replace(after[-1], reserved=reserve(after, need))
    spent, reserved = settle(after, need, usage)
    after[-1] = replace(after[-1], spent=spent, reserved=reserved)
    for old, new in zip(before, after, strict=True):
        assert new.reserved == old.reserved
        assert new.spent.tokens == old.spent.tokens + used.tokens
        assert new.spent.micro_usd == old.spent.micro_usd + used.micro_usd
        assert replace(new, spent=old.spent) == old


def test_a_step_that_needs_nothing_is_charged_nothing() -> None:
    assert charge_of(Need(), Usage(5, 5)) == charge_of(Need(), None) == ZERO


def test_amounts_in_the_agents_own_scope_are_returned_for_its_record() -> None:
    records = ancestry(account(None), account(None, reserved=1, spent=2))
    assert reserve(records, Need(7)) == Need(8)
    assert [record.reserved for record in records] == [Need(7), Need(1)]
    assert settle(records, Need(7), Usage(5)) == (Usage(7), Need(-6))
    assert [record.spent for record in records] == [Usage(5), Usage(2)]


def test_a_call_of_unknown_use_is_charged_all_that_was_reserved() -> None:
    assert charge_of(Need(70, 9), None) == Usage(charged_tokens=70, micro_usd=9, calls=1, unknown_calls=1)
    assert charge_of(Need(70, 9), Usage(5, 6, micro_usd=2)) == Usage(5, 6, micro_usd=2, calls=1)
    assert charge_of(Need(70, 9), ZERO) == Usage(calls=1)
