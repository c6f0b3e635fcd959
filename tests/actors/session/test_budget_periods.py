"""The periods of budgets: days and months of UTC, by the calendar of the standard library."""

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.session.budget_periods import Per, end_of, is_period_of, period_at
from tests.tables import table

TIMES = st.datetimes(datetime(1960, 1, 1), datetime(2400, 1, 1), timezones=st.just(UTC))


def ms(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@given(TIMES)
def test_a_period_is_the_day_or_month_of_its_time(moment: datetime) -> None:
    assert period_at("day", ms(moment)) == f"{moment:%Y-%m-%d}"
    assert period_at("month", ms(moment)) == f"{moment:%Y-%m}"
    assert period_at(None, ms(moment)) == ""


@given(TIMES)
def test_a_period_ends_where_the_next_begins(moment: datetime) -> None:
    pers: tuple[Per, ...] = ("day", "month")
    for per in pers:
        end = end_of(per, ms(moment))
        assert end is not None
        assert period_at(per, end - 1) == period_at(per, ms(moment)) < period_at(per, end)
    assert end_of(None, ms(moment)) is None


@table("year", [1969, 1970, 1999, 2000, 2001, 2003, 2004, 2100, 2399, 2400])
def test_every_day_of_a_year_has_its_name(year: int) -> None:
    first, last = date(year, 1, 1), date(year, 12, 31)
    for day in range(first.toordinal(), last.toordinal() + 1):
        begins = (day - date(1970, 1, 1).toordinal()) * 86_400_000
        name = date.fromordinal(day).isoformat()
        assert period_at("day", begins) == period_at("day", begins + 86_399_999) == name


def test_the_names_of_one_kind_are_not_those_of_another() -> None:
    names: dict[Per, str] = {"day": "2026-11-28", "month": "2026-11", None: ""}
    for per, name in names.items():
        kinds = [one for one in names if is_period_of(one, name)]
        assert kinds == [per]
