"""The one module that reads the clock and draws chance. Neither ever reaches a decider."""

import secrets
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def now_ms() -> int:
    """Milliseconds since 1970 UTC, as they go into the log."""
    return time.time_ns() // 1_000_000


def new_session_id() -> str:
    """A new id: the date, for people, and 50 random bits in Crockford's base 32."""
    day = time.strftime("%Y%m%d", time.gmtime())
    return f"{day}-{''.join(secrets.choice(_ALPHABET) for _ in range(10))}"


def new_request_id() -> str:
    """A new id for an ask that was given none."""
    return secrets.token_hex(6)
