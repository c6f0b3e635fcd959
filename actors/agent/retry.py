"""Retries of model calls: the wait before each, and the end after the last.

Waits triple from half a second up to a minute, so that the six attempts that are the default outlast a limit
of calls in a minute. A service may ask for a longer wait, up to five minutes. It may also ask for a shorter
one, which is kept twice in a turn: some ask for none while their limit lasts.

    attempt                          1      2      3       4       5     all five
    wait                             0.55   1.65   4.95    14.85   44.55   66.55 s
    wait if the service asks for 0   0      0      4.95    14.85   44.55   64.35 s

A digest of agent and attempt spreads waits over a tenth of their length: a hundred agents that were refused
together do not return together, and every replay waits as long as the original.

The same unreadable answer twice is the end, because it will never be read otherwise.
"""

from typing import Final

from msgspec.structs import replace

from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.value_types import ModelFailure

FIRST_MS: Final = 550
GROWTH: Final = 3
LONGEST_MS: Final = 60_000
LONGEST_ASKED_MS: Final = 300_000
SHORTER_MAX: Final = 2
"""The waits of a turn that a service may shorten."""


def end_of(failure: ModelFailure) -> tuple[OutcomeKind, str]:
    """Return the kind and the detail of an agent's end by a failure that is not tried again."""
    if failure.code == "crashed":  # a program that raised, in its own words
        return "crashed", failure.message
    kind: OutcomeKind = "context_full" if failure.code == "context_full" else "model_error"
    return kind, f"{failure.code}: {failure.message}"


def final_if_again(failure: ModelFailure, before: str, attempt: int) -> ModelFailure:
    """Return the failure as a final one if its answer is the same as that of the attempt before.

    before: the digest of that one, which is of another turn if this is the first attempt.
    """
    if attempt == 1 or not failure.digest or failure.digest != before:
        return failure
    return replace(failure, message=f"{failure.message} (the same answer came twice)", is_retryable=False)


def backoff_ms(failure: ModelFailure, attempt: int, max_attempts: int, who: str, rules: int) -> int | None:
    """Return the milliseconds to wait before the next attempt; None if there is no next one."""
    if not failure.is_retryable or attempt >= max_attempts:
        return None
    return spread_ms(wait_ms(failure, attempt, rules), attempt, who)


def wait_ms(failure: ModelFailure, attempt: int, rules: int) -> int:
    """Return the milliseconds to wait after so many attempts, before they are spread; at least 1."""
    asked = failure.retry_after_ms
    kept = None if asked is None else min(max(asked, 1), LONGEST_ASKED_MS)
    if rules < 2:
        return kept or min(30_000, 500 << min(attempt - 1, 16))
    if kept is not None and attempt <= SHORTER_MAX:
        return kept
    wait: int = FIRST_MS * GROWTH ** min(attempt - 1, 9)
    return max(kept or 0, min(LONGEST_MS, wait))


def spread_ms(wait: int, attempt: int, who: str) -> int:
    """Return a wait that is up to a tenth longer, by agent and attempt."""
    spread = int(rolled(f"{who}/{attempt}")[:4], 16)
    return wait + wait * spread // (10 * 0xFFFF)
