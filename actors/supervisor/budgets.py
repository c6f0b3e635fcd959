"""Budgets: a call must fit in the scope of its agent and of every agent above, up to the host.

`ancestry` is a list of records, from the host down to the agent. `need` is an upper bound. It is reserved
before the call and replaced by the usage when the answer is settled, so that the children of one budget
cannot overshoot it together.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.money import MONEY_SINCE, in_dollars
from callboard.actors.protocol.port_messages import BudgetGiven
from callboard.actors.protocol.usage import NOTHING, ZERO, Need, Usage, plus
from callboard.actors.supervisor.reserve import NO_RESERVE, add, subtract
from callboard.actors.supervisor.state import Record

Verdict: TypeAlias = Literal["now", "later", "never"]
Unit: TypeAlias = Literal["tokens", "micro_usd"]


def is_limited(ancestry: Iterable[Record]) -> bool:
    """Return True if a budget bounds the last of these agents."""
    for record in ancestry:
        budget = record.budget
        if budget.tokens is not None or budget.micro_usd is not None:
            return True
    return False


def fits(ancestry: list[Record], need: Need) -> tuple[Verdict, tuple[str, ...]]:
    """Return whether a call fits, and the scopes in which it does not, lowest first.

    now: the call fits in every scope.
    later: calls in flight hold the room that it needs.
    never: one scope is too small, even after all calls in flight are settled.
    """
    if not is_limited(ancestry):
        return "now", ()
    kept = need  # and what each ancestor keeps, in its own scope and in all above it
    exhausted: list[str] = []
    for record in reversed(ancestry):
        if record.kept is not NO_RESERVE and record is not ancestry[-1]:
            kept = add(kept, record.kept.total)
        verdict = _fits_in(record, kept)
        if verdict == "never":
            return "never", (record.address,)
        if verdict == "later":
            exhausted.append(record.address)
    return ("later", tuple(exhausted)) if exhausted else ("now", ())


def _fits_in(record: Record, kept: Need) -> Verdict:
    budget, spent, reserved = record.budget, record.spent, record.reserved
    verdict: Verdict = "now"
    if budget.tokens is not None:
        total = spent.tokens + kept.tokens
        if total > budget.tokens:
            return "never"
        verdict = "later" if total + reserved.tokens > budget.tokens else verdict
    if budget.micro_usd is not None:
        total = spent.micro_usd + kept.micro_usd
        if total > budget.micro_usd:
            return "never"
        verdict = "later" if total + reserved.micro_usd > budget.micro_usd else verdict
    return verdict


def kept_above(ancestry: list[Record]) -> Iterator[tuple[Record, Need]]:
    """Yield each record, lowest first, with what the agents above the lowest keep."""
    kept = NOTHING
    for record in reversed(ancestry):
        if record is not ancestry[-1]:
            kept = add(kept, record.kept.total)
        yield record, kept


def shortage(ancestry: list[Record], need: Need, place: int, rules: int) -> str:
    """Say what a call needs and what the scope at this place has left, if the call can never fit there.

    rules: of the session.
    """
    record, kept = ancestry[place], NOTHING
    for above in ancestry[place:-1]:
        kept = add(kept, above.kept.total)
    budget, spent = record.budget, record.spent
    if budget.tokens is not None and spent.tokens + need.tokens + kept.tokens > budget.tokens:
        amounts = (need.tokens, kept.tokens, spent.tokens, budget.tokens)
        return _shortage("tokens", *amounts) if rules >= MONEY_SINCE else _former_shortage("tokens", *amounts)
    assert budget.micro_usd is not None
    amounts = (need.micro_usd, kept.micro_usd, spent.micro_usd, budget.micro_usd)
    if rules >= MONEY_SINCE:
        return _shortage("micro_usd", *amounts)
    return _former_shortage("millionths of a US dollar", *amounts)


def _shortage(unit: Unit, need: int, kept: int, spent: int, limit: int) -> str:
    beside = f" beside {_amount(unit, kept)} for closing turns" if kept else ""
    left = max(0, limit - spent)
    return (
        f"it needs up to {_amount(unit, need)}{beside}; {_amount(unit, left)} {_verb(unit, left)} left, "
        f"{_part(unit, spent, limit)} {_verb(unit, spent)} spent"
    )


def _former_shortage(unit: str, need: int, kept: int, spent: int, limit: int) -> str:
    """Say the same in the words of earlier rules, which logs hold."""
    beside = f" beside {kept:,} {unit} for closing turns" if kept else ""
    left = max(0, limit - spent)
    return (
        f"it needs up to {need:,} {unit}{beside}; {left:,} {unit} are left, {spent:,} of {limit:,} are spent"
    )


def _amount(unit: Unit, count: int) -> str:
    if unit == "micro_usd":
        return in_dollars(count)
    return f"{count:,} {'token' if count == 1 else 'tokens'}"


def _part(unit: Unit, count: int, whole: int) -> str:
    """Return a part of an amount: both in dollars, or two numbers."""
    if unit == "micro_usd":
        return f"{in_dollars(count)} of {in_dollars(whole)}"
    return f"{count:,} of {whole:,}"


def _verb(unit: Unit, count: int) -> str:
    return "is" if unit == "micro_usd" or count == 1 else "are"


def reserve(ancestry: list[Record], need: Need) -> Need:
    """Reserve a call in every scope above the agent's own. Return the reservation of its own scope."""
    # The caller writes the agent's own record, in which more than this changes.
    for place, record in enumerate(ancestry[:-1]):
        ancestry[place] = replace(record, reserved=add(record.reserved, need))
    return add(ancestry[-1].reserved, need)


def settle(ancestry: list[Record], need: Need, used: Usage) -> tuple[Usage, Need]:
    """Charge a use and release its reservation in every scope above the agent's own.

    Return the amounts spent and reserved in its own scope.
    """
    for place, record in enumerate(ancestry[:-1]):
        spent, reserved = plus(record.spent, used), subtract(record.reserved, need)
        ancestry[place] = replace(record, spent=spent, reserved=reserved)
    own = ancestry[-1]
    return plus(own.spent, used), subtract(own.reserved, need)


def charge_of(need: Need, usage: Usage | None) -> Usage:
    """Return the charge for a call: its usage, or the whole reservation if the usage is not known.

    A program's step needs nothing and is charged nothing.
    """
    if need == NOTHING:
        return ZERO
    if usage is None:
        return Usage(charged_tokens=need.tokens, micro_usd=need.micro_usd, calls=1, unknown_calls=1)
    return replace(usage, calls=1)


def shortage_above(need: Need, given: BudgetGiven) -> str:
    """Say what a call needs, and what the budget above the session that refuses it has left."""

    unit = given.unit or "tokens"
    left = max(0, given.limit - given.spent - given.elsewhere)
    period = f" in {given.period}" if given.period else ""
    what = f"{_part(unit, left, given.limit)}{'' if unit == 'micro_usd' else ' tokens'}"
    said = (
        f"the budget {given.scope!r} is too small for another turn: it needs up to "
        f"{_amount(unit, getattr(need, unit))}; {what} {_verb(unit, left)} left{period}"
    )
    if not given.elsewhere:
        return said
    held = f"{_amount(unit, given.elsewhere)}; resume them: {', '.join(given.sessions)}"
    return f"{said}, since calls of sessions that no process runs hold {held}"
