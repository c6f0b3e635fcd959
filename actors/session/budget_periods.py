"""The periods of budgets, by name, in UTC: a day `2026-11-28`, a month `2026-11`, and '' for all time.

Names of one kind sort by time. Times are milliseconds since 1970 UTC.
"""

from typing import Final, Literal, TypeAlias

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
