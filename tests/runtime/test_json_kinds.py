"""The kinds of values that have a JSON of their own."""

import datetime

import pytest
from pydantic import BaseModel

from callboard.runtime.json_kinds import dumped, is_model, unsuitable


class Day(BaseModel):
    at: datetime.date


def test_a_model_of_pydantic_gives_plain_values() -> None:
    day = Day(at=datetime.date(2025, 1, 2))
    assert is_model(day)
    assert not is_model(Day)
    assert dumped(day) == {"at": "2025-01-02"}


@pytest.mark.parametrize(
    ("value", "words"),
    [(b"x", "decode it"), ({1}, "write sorted"), (object(), "is of type object, which is not JSON")],
)
def test_a_value_without_json_is_told_what_to_pass_instead(value: object, words: str) -> None:
    assert words in unsuitable(value)
