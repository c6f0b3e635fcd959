"""Types of other libraries, recognised without an import of those."""

import collections
import pathlib
from typing import Any

from callboard.runtime.foreign_types import Given, as_text, given_by, has_form, own_fields
from tests.runtime.library_values import Array, Frame, Moment, Scalar
from tests.runtime.reports import Finding, Plain, Span
from tests.tables import table


def test_classes_whose_values_have_a_json_of_their_own_are_known() -> None:
    own = (int, Array, Scalar, Frame, pathlib.Path, set, bytes, Finding, complex, range, collections.deque)
    assert [kind for kind in own if not has_form(kind)] == []
    assert [kind for kind in (Plain, object, type) if has_form(kind)] == []


class Long(Scalar):
    """A number without an equal in Python: `item` gives it as it is."""

    def item(self) -> object:
        return self

    def __float__(self) -> float:
        return 1.5


class Tensor:
    """A value with one of the usual methods."""

    def to_list(self) -> list[int]:
        return [1]


@table(
    ("value", "given"),
    [
        (Scalar(3), 3),
        (Long(3), 1.5),
        (Tensor(), [1]),
        (Array([1, 2]), [1, 2]),
        (Frame([{"a": 1}]), [{"a": 1}]),
        (Frame([{"a": 1}], is_counted=False), {"index": [0], "data": [[1]]}),
    ],
)
def test_a_value_of_a_library_gives_a_plain_one(value: Any, given: object) -> None:
    assert given_by(value, 1_000) == Given(given)


def test_a_table_or_array_without_room_is_cut_before_it_is_made_plain() -> None:
    rows: list[dict[str, object]] = [{"a": n, "b": n} for n in range(10)]
    assert given_by(Frame(rows), 4) == Given(rows[:2], is_cut=True)
    assert given_by(Array([1, 2, 3]), 2) == Given("[0 1 ... 9]", is_cut=True)


def test_any_other_value_gives_none() -> None:
    assert given_by(Plain(), 10) is None
    assert own_fields(Plain()) is None
    assert as_text(Plain()) is None


def test_a_text_and_fields_are_told_by_the_class() -> None:
    assert as_text(Moment("2026-01-01")) == "2026-01-01"
    assert as_text(pathlib.PurePosixPath("a")) == "a"
    assert list(own_fields(Span(1, 2)) or ()) == [("first", 1), ("last", 2)]
