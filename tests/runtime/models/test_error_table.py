"""The table of errors is sound: its names can be met, and no name has two codes."""

from callboard.actors.protocol.failures import kind_of
from callboard.runtime.models.answer_bodies import squeezed
from callboard.runtime.models.error_table import FINAL, LOST, REFUSED, RETRYABLE, ROWS, STATUSES, VAGUE

ALL = (*ROWS, *VAGUE)


def test_names_are_written_as_they_are_compared() -> None:
    assert [name for row in ALL for name in row.names if squeezed(name) != name] == []


def test_phrases_are_in_lower_case() -> None:
    assert [phrase for row in ALL for phrase in row.phrases if phrase != phrase.lower()] == []


def test_no_name_stands_for_two_codes() -> None:
    names = [name for row in ALL for name in row.names]
    assert len(names) == len(set(names))


def test_each_code_is_tried_again_or_is_not() -> None:
    codes = {row.code for row in ALL} | set(STATUSES.values())
    assert codes == RETRYABLE | REFUSED
    assert not RETRYABLE & REFUSED
    assert FINAL <= REFUSED


def test_each_code_that_may_pass_has_a_kind() -> None:
    assert all(kind_of(code) for code in RETRYABLE)


def test_a_lost_answer_is_one_that_a_gateway_waited_for() -> None:
    assert not LOST & {429, 500, 503, 529}
