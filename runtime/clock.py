"""The clock and chance. No other module reads them, and no decider ever sees them."""

import secrets
import time
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC, for the log."""
    return time.time_ns() // 1_000_000


def file_time_ns() -> int:
    """Return the time in nanoseconds since 1970 UTC, to compare with the times of files."""
    return time.time_ns()


def monotonic_ms() -> int:
    """Return the milliseconds of a clock that is never set back, for waits."""
    return time.monotonic_ns() // 1_000_000


def monotonic_us() -> int:
    """Return the microseconds of a clock that is never set back, for the length of a call."""
    return time.perf_counter_ns() // 1_000


def thread_cpu_us() -> int:
    """Return the processor time of this thread, in microseconds."""
    return time.thread_time_ns() // 1_000


def new_session_id() -> str:
    """Make a session id: the date, for people, and 50 random bits in Crockford's base 32."""
    day = time.strftime("%Y%m%d", time.gmtime())
    return f"{day}-{''.join(secrets.choice(_ALPHABET) for _ in range(10))}"


def new_request_id() -> str:
    """Make an id for an ask without one."""
    return secrets.token_hex(6)


def new_token() -> str:
    """Return a new secret, which a process gives to one that it starts."""
    return secrets.token_hex(16)
