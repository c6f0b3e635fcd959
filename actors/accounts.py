"""Budgets as accounts: a call must fit in the scope of its agent and of every agent above, up to the host.

`chain` is the records from the host down to the agent. Nothing is estimated here: `need` is an upper
bound, reserved before the call and replaced by what the call used when its answer is settled. So the
children of one budget cannot overshoot it together, however many ask at once.
"""

from typing import Literal, TypeAlias

from msgspec.structs import replace

from callboard.actors.supervisor_state import Account, Record
from callboard.actors.usage import NOTHING, Need, Usage, plus

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
        account = chain[place].account
        if account.closing is not NOTHING and place < len(chain) - 1:
            kept = add(kept, account.closing)
        if account.tokens is None and account.cost is None:
            continue
        verdict = _fits_in(account, kept)
        if verdict == "never":
            return "never", (chain[place].address,)
        if verdict == "later":
            exhausted.append(chain[place].address)
    return ("later", tuple(exhausted)) if exhausted else ("now", ())


def _fits_in(account: Account, kept: Need) -> Verdict:
    verdict: Verdict = "now"
    if account.tokens is not None:
        total = account.spent.tokens + kept.tokens
        if total > account.tokens:
            return "never"
        verdict = "later" if total + account.reserved.tokens > account.tokens else verdict
    if account.cost is not None:
        total = account.spent.cost + kept.cost
        if total > account.cost:
            return "never"
        verdict = "later" if total + account.reserved.cost > account.cost else verdict
    return verdict


def reserve(chain: list[Record], need: Need) -> None:
    """Put records into the chain that have the call reserved in every scope."""
    tokens, cost = need.tokens, need.cost
    for place, record in enumerate(chain):
        account = record.account
        held = account.reserved
        account = replace(account, reserved=Need(held.tokens + tokens, held.cost + cost))
        chain[place] = replace(record, account=account)


def settle(chain: list[Record], need: Need, used: Usage) -> None:
    """Put records into the chain with the reservation given back and the use charged, in every scope."""
    tokens, cost = need.tokens, need.cost
    for place, record in enumerate(chain):
        account = record.account
        held = account.reserved
        left = Need(held.tokens - tokens, held.cost - cost)
        account = replace(account, spent=plus(account.spent, used), reserved=left)
        chain[place] = replace(record, account=account)


def charge_of(need: Need, usage: Usage | None) -> Usage:
    """What a call is charged: its use, or all that was reserved where the use is not known."""
    if usage is None:
        return Usage(charged_tokens=need.tokens, cost=need.cost, calls=1, unknown_calls=1)
    return replace(usage, calls=1)
