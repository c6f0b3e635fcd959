"""Budgets : a call must fit in the scope of its agent and of every agent above, up to the host.

`chain` is the records from the host down to the agent. Nothing is estimated here: `need` is an upper
bound, reserved before the call and replaced by what the call used when its answer is settled. So the
children of one budget cannot overshoot it together, however many ask at once.
"""

from typing import Literal, TypeAlias

from msgspec.structs import replace

from callboard.actors.protocol.usage import NOTHING, Need, Usage, plus
from callboard.actors.supervisor.state import Record

Verdict: TypeAlias = Literal["now", "later", "never"]


def add(one: Need, other: Need) -> Need:
    """Both together."""
    return Need(one.tokens + other.tokens, one.cost + other.cost)


def subtract(one: Need, other: Need) -> Need:
    """What is left of one."""
    return Need(one.tokens - other.tokens, one.cost - other.cost)


def fits(chain: list[Record], need: Need) -> tuple[Verdict, tuple[str, ...]]:
    """Whether a call fits, and the scopes that are exhausted by calls in flight if it does not yet.

    An ancestor's closing turn is kept free in its own scope and in all above it.
    """
    kept = need
    exhausted: list[str] = []
    for place in range(len(chain) - 1, -1, -1):
        record = chain[place]
        budget = record.budget
        if budget.closing is not NOTHING and place < len(chain) - 1:
            kept = add(kept, budget.closing)
        if budget.tokens is None and budget.cost is None:
            continue
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
    if budget.cost is not None:
        total = spent.cost + kept.cost
        if total > budget.cost:
            return "never"
        verdict = "later" if total + reserved.cost > budget.cost else verdict
    return verdict


def reserve(chain: list[Record], need: Need) -> Need:
    """Put records into the chain that have the call reserved, in every scope above the agent's own.

    Returns what is to be reserved in its own, whose record has more to change.
    """
    for place, record in enumerate(chain[:-1]):
        chain[place] = replace(record, reserved=add(record.reserved, need))
    return add(chain[-1].reserved, need)


def settle(chain: list[Record], need: Need, used: Usage) -> tuple[Usage, Need]:
    """The same for a reservation that is given back and a use that is charged: spent and reserved."""
    for place, record in enumerate(chain[:-1]):
        spent, reserved = plus(record.spent, used), subtract(record.reserved, need)
        chain[place] = replace(record, spent=spent, reserved=reserved)
    own = chain[-1]
    return plus(own.spent, used), subtract(own.reserved, need)


def charge_of(need: Need, usage: Usage | None) -> Usage:
    """What a call is charged: its use, or all that was reserved where the use is not known."""
    if usage is None:
        return Usage(charged_tokens=need.tokens, cost=need.cost, calls=1, unknown_calls=1)
    return replace(usage, calls=1)
