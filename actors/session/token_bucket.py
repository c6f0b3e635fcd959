"""A bucket of tokens that fills at a constant rate, and holds what flows in within one minute.

It counts in units of a token by a millisecond of a minute, so that no fraction is ever rounded.
"""

from typing import Final

MINUTE_MS: Final = 60_000


class TokenBucket:
    """A bucket. rate: tokens a minute, 0 for no limit. level: in units; full without one."""

    def __init__(self, rate: int, filled_ms: int, level: int | None = None) -> None:
        self.rate = rate
        self.full = rate * MINUTE_MS
        self.level = self.full if level is None else min(level, self.full)
        self.filled_ms = filled_ms

    @property
    def tokens(self) -> int:
        """Return the whole tokens in it, negative after a large call."""
        return self.level // MINUTE_MS

    def refill(self, now: int) -> None:
        """Fill it up to a time. A clock that went back fills nothing."""
        if now > self.filled_ms:
            self.level = min(self.full, self.level + (now - self.filled_ms) * self.rate)
            self.filled_ms = now

    def take(self, tokens: int) -> None:
        """Take tokens out, perhaps more than there are."""
        self.level -= tokens * MINUTE_MS

    def put_back(self, tokens: int) -> None:
        """Put unused tokens back; a negative number takes further ones."""
        self.level = min(self.full, self.level + tokens * MINUTE_MS)

    def wait_ms(self, level: int) -> int:
        """Return the time until it has reached a level."""
        return -(-(level - self.level) // self.rate)


class LeasedTokens(TokenBucket):
    """The tokens that one of several workers has been given. It is empty at first, and does not fill."""

    def __init__(self, rate: int, filled_ms: int) -> None:
        super().__init__(rate, filled_ms, 0)

    def refill(self, now: int) -> None:
        """Fill nothing: only the home of the model's capacity gives tokens."""

    def add(self, tokens: int) -> None:
        """Add tokens that this worker was given. They may exceed a minute's worth."""
        self.level += tokens * MINUTE_MS
