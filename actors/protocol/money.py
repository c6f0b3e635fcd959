"""Amounts of money in texts that models and people read."""

from typing import Final

MONEY_SINCE: Final = 2
"""The rules of a session from which on its refusals tell money in dollars."""


def in_dollars(micro_usd: int) -> str:
    """Return millionths of a US dollar as dollars, exactly: two amounts that differ never look equal.

    >>> in_dollars(0), in_dollars(15_100), in_dollars(41), in_dollars(1_234_500_000)
    ('$0', '$0.0151', '$0.000041', '$1,234.50')
    """
    if not micro_usd:
        return "$0"
    # Integers only: this text is part of what a decider posts.
    whole, part = divmod(micro_usd, 1_000_000)
    return f"${whole:,}.{f'{part:06d}'.rstrip('0').ljust(2 if whole else 4, '0')}"
