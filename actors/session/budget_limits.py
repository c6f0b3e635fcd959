"""Budgets above sessions, the scopes that bound a session, and periods: pure functions of patterns and tags.

A pattern of tags names budgets, and a session is bound by one *scope* of each pattern that matches a tag of
it:

    "batch"       the scope `batch`, for sessions with this tag
    "tenant:*"    a scope for each tag that begins with `tenant:`, such as `tenant:*=tenant:acme`
    "*"           the scope `*`, for all sessions

A star in a tag is a character like any other. No pattern names such a tag alone.

A period is in UTC: a day `2026-11-28`, a month `2026-11`, and '' for all time. Names of one kind sort by
time. Times are milliseconds since 1970 UTC.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import Value
from callboard.actors.protocol.limits import micro_usd
from callboard.actors.protocol.near_names import NamedFields

Per: TypeAlias = Literal["day", "month"] | None
"""The length of a period; None for all time."""

_DAY_MS: Final = 86_400_000
_LENGTHS: Final = {None: 0, "day": 10, "month": 7}


def period_at(per: Per, now_ms: int) -> str:
    """Return the period of a time.

    >>> period_at("day", 1_709_164_800_000), period_at("month", 1_709_164_800_000), period_at(None, 0)
    ('2024-02-29', '2024-02', '')
    """
    if per is None:
        return ""
    year, month, day = _date_of(now_ms // _DAY_MS)
    return f"{year:04}-{month:02}-{day:02}" if per == "day" else f"{year:04}-{month:02}"


def is_period_of(per: Per, period: str) -> bool:
    """Return True for a name of this kind of period."""
    return len(period) == _LENGTHS[per]


def end_of(per: Per, now_ms: int) -> int | None:
    """Return the end of the period of a time; None for all time.

    >>> end_of("day", 5), end_of("month", 0)
    (86400000, 2678400000)
    """
    if per is None:
        return None
    days = now_ms // _DAY_MS
    if per == "day":
        return (days + 1) * _DAY_MS
    this = _date_of(days)[:2]
    while _date_of(days)[:2] == this:  # at most 31 times
        days += 1
    return days * _DAY_MS


def _date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970, by the Gregorian calendar."""
    # The year begins in March, so that the leap day is its last: 153 days in each five months.
    era, of_era = divmod(days + 719_468, 146_097)
    of_era_year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * of_era_year + of_era_year // 4 - of_era_year // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + of_era_year + (month <= 2), month, day


Unit: TypeAlias = Literal["tokens", "micro_usd"]
_OF_TAG: Final = ":*="


class Budget(Value, frozen=True, metaclass=NamedFields):
    """The most that all calls of a scope may use in a period. None for no limit of that kind.

    cost_usd: US dollars; the models of its sessions need prices. tokens: as in `Limits`. per: `"day"` or
    `"month"`, in UTC; None for all time.

    Raises MisuseError for an amount that is not a number above 0, for no amount, and for another period.
    """

    cost_usd: float | None = None
    tokens: int | None = None
    per: Per = None

    def __post_init__(self) -> None:
        cost, tokens = self.cost_usd, self.tokens
        if cost is not None and (type(cost) not in (int, float) or not 0 < cost < 10**12):
            raise MisuseError(f"Budget: cost_usd={cost!r:.80}; give a number of US dollars above 0, or None")
        if tokens is not None and (type(tokens) is not int or tokens < 1):
            raise MisuseError(f"Budget: tokens={tokens!r:.80}; give a whole number from 1 up, or None")
        if cost is None and tokens is None:
            raise MisuseError("Budget: give an amount, such as Budget(cost_usd=20, per='day')")
        if self.per not in (None, "day", "month"):
            raise MisuseError(f"Budget: per={self.per!r:.80}; use 'day', 'month', or None for all time")

    def limit(self, unit: Unit) -> int | None:
        """Return the limit in a unit; None for no limit."""
        if unit == "tokens":
            return self.tokens
        return None if self.cost_usd is None else micro_usd(self.cost_usd)


def checked_patterns(budgets: Mapping[str, Budget]) -> dict[str, Budget]:
    """Return a copy of the budgets by pattern. Raises MisuseError for anything else."""
    example = "{'tenant:*': Budget(cost_usd=20, per='day')}"
    if not isinstance(budgets, Mapping):
        raise MisuseError(f"budgets={budgets!r:.80}: give {example}")
    for pattern, budget in budgets.items():
        if not isinstance(pattern, str) or not isinstance(budget, Budget):
            raise MisuseError(
                f"budgets has {pattern!r:.80}: {budget!r:.80}; give budgets by pattern, {example}"
            )
        stem = pattern.removesuffix(":*") if pattern != "*" else "all"
        if not stem or "*" in stem or not pattern.isprintable():
            raise MisuseError(
                f"budgets has the pattern {pattern!r:.80}; use a tag ('batch'), a prefix that ends in ':*' "
                "('tenant:*': one budget for each such tag), or '*' (one for all sessions)"
            )
    return dict(budgets)


def scopes_of(patterns: Iterable[str], tags: Collection[str]) -> tuple[str, ...]:
    """Return the scopes of a session with these tags, in order.

    >>> scopes_of(["*", "batch", "tenant:*"], ["tenant:acme", "nightly"])
    ('*', 'tenant:*=tenant:acme')
    """
    found = []
    for pattern in patterns:
        if pattern == "*":
            found.append(pattern)
        elif pattern.endswith(":*"):
            found += [f"{pattern}={tag}" for tag in tags if tag.startswith(pattern[:-1])]
        elif pattern in tags:
            found.append(pattern)
    return tuple(sorted(found))


def pattern_of(scope: str) -> str:
    """Return the pattern of a scope.

    >>> pattern_of("tenant:*=tenant:acme"), pattern_of("batch"), pattern_of("*")
    ('tenant:*', 'batch', '*')
    """
    stem, is_prefix, _ = scope.partition(_OF_TAG)
    return f"{stem}:*" if is_prefix else scope
