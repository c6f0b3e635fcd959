"""When a model call is tried again, and how long is waited before.

Exponential back-off from half a second, doubled each time up to half a minute, or what the service asks
for (up to five minutes). A tenth is spread by a digest of who retries, so that a hundred agents that were
refused together do not come back together, and every replay waits alike.
"""

from typing import Final

from callboard.actors.protocol.conversation import rolled
from callboard.actors.protocol.value_types import ModelFailure

FIRST_MS: Final = 500
LONGEST_MS: Final = 30_000
LONGEST_ASKED_MS: Final = 300_000


def backoff_ms(failure: ModelFailure, attempt: int, max_attempts: int, who: str) -> int | None:
    """Milliseconds to wait before the next attempt, or None if there is none."""
    if not failure.is_retryable or attempt >= max_attempts:
        return None
    wait = min(LONGEST_MS, FIRST_MS << min(attempt - 1, 16))
    if failure.retry_after_ms is not None:
        wait = min(max(failure.retry_after_ms, 1), LONGEST_ASKED_MS)
    spread = int(rolled(f"{who}/{attempt}")[:4], 16)
    return wait + wait * spread // (10 * 0xFFFF)
