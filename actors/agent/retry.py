"""Retries of model calls: the wait before each, and the end after the last.

The wait doubles from half a second up to half a minute. A service may ask for another wait, up to five
minutes. A digest of agent and attempt spreads waits over a tenth of their length: a hundred agents that were
refused together do not return together, and every replay waits as long as the original.
"""

from typing import Final

from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.value_types import ModelFailure

FIRST_MS: Final = 500
LONGEST_MS: Final = 30_000
LONGEST_ASKED_MS: Final = 300_000


def end_of(failure: ModelFailure) -> tuple[OutcomeKind, str]:
    """Return the kind and the detail of an agent's end by a failure that is not tried again."""
    if failure.code == "crashed":  # a program that raised, in its own words
        return "crashed", failure.message
    kind: OutcomeKind = "context_full" if failure.code == "context_full" else "model_error"
    return kind, f"{failure.code}: {failure.message}"


def backoff_ms(failure: ModelFailure, attempt: int, max_attempts: int, who: str) -> int | None:
    """Return the milliseconds to wait before the next attempt; None if there is no next one."""
    if not failure.is_retryable or attempt >= max_attempts:
        return None
    return spread_ms(wait_ms(failure, attempt), attempt, who)


def wait_ms(failure: ModelFailure, attempt: int) -> int:
    """Return the milliseconds to wait after so many attempts, before they are spread; at least 1."""
    if failure.retry_after_ms is not None:
        return min(max(failure.retry_after_ms, 1), LONGEST_ASKED_MS)
    return min(LONGEST_MS, FIRST_MS << min(attempt - 1, 16))


def spread_ms(wait: int, attempt: int, who: str) -> int:
    """Return a wait that is up to a tenth longer, by agent and attempt."""
    spread = int(rolled(f"{who}/{attempt}")[:4], 16)
    return wait + wait * spread // (10 * 0xFFFF)
