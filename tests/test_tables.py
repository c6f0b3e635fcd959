import inspect
from collections.abc import Sequence

import pytest

from tests.tables import Ids, table


def notes(error: BaseExceptionGroup[BaseException]) -> list[str]:
    return [note for each in error.exceptions for note in each.__notes__]


def is_odd(number: int) -> None:
    assert number % 2, number


def test_every_row_is_checked_and_all_that_fail_are_named() -> None:
    seen = []

    @table("number", [1, 2, 3, 4])
    def check(number: int) -> None:
        seen.append(number)
        is_odd(number)

    with pytest.raises(BaseExceptionGroup, match="2 of 4 rows fail") as caught:
        check()
    assert seen == [1, 2, 3, 4]
    assert notes(caught.value) == ["in row 1: number=2", "in row 3: number=4"]


def test_rows_that_all_hold_pass() -> None:
    table("number", (1, 3))(is_odd)()


def test_a_test_that_fails_by_pytest_fails() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        table("number", [1])(lambda number: pytest.fail(f"not {number}"))()
    assert notes(caught.value) == ["in row 0: number=1"]


def test_a_row_that_is_skipped_fails_instead_of_hiding_the_rows_after_it() -> None:
    seen = []

    @table("number", [1, 2])
    def check(number: int) -> None:
        seen.append(number)
        pytest.skip("not here")

    with pytest.raises(BaseExceptionGroup, match="2 of 2 rows fail"):
        check()
    assert seen == [1, 2]


@pytest.mark.parametrize(
    ("rows", "ids", "label"),
    [
        ([pytest.param(2, id="two")], None, "two"),
        ([2], ["zwei"], "zwei"),
        ([2], "<{}>".format, "<2>"),
        ([2], {"zwei": 2}.keys(), "zwei"),
        ([2], [None], "0: number=2"),
    ],
)
def test_a_row_has_the_name_that_it_is_given(rows: Sequence[object], ids: Ids, label: str) -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        table("number", rows, ids=ids)(is_odd)()
    assert notes(caught.value) == [f"in row {label}"]


@pytest.mark.parametrize("names", ["first, second", ("first", "second")])
def test_fixtures_are_the_parameters_that_no_row_fills(names: str | tuple[str, str]) -> None:
    seen = []

    @table(names, [(1, 2), (3, 4)])
    def check(first: int, other: str, second: int) -> None:
        seen.append((first, other, second))

    assert list(inspect.signature(check).parameters) == ["other"]
    check(other="x")
    assert seen == [(1, "x", 2), (3, "x", 4)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one row"),
        ([(1, 2), (3,)], r"1 values for first, second: \(3,\)"),
        ([pytest.param(1, 2, marks=pytest.mark.slow)], "cannot have marks"),
    ],
)
def test_a_table_that_would_check_less_than_it_says_is_refused(rows: Sequence[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        table("first, second", rows)


def test_an_interrupt_ends_the_test_at_once() -> None:
    def interrupted(number: int) -> None:
        raise KeyboardInterrupt(number)

    with pytest.raises(KeyboardInterrupt, match="1"):
        table("number", [1, 2])(interrupted)()
