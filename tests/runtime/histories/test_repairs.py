"""The repairs of a history, and the refusal of one that is not repaired."""

import doctest

import pytest

from callboard.errors import InvalidHistory
from callboard.runtime.histories import repairs as module
from callboard.runtime.histories.repairs import Repair, Repairs


def test_a_history_without_faults_is_not_refused() -> None:
    repairs = Repairs()
    repairs.refuse()
    assert repairs.made == ()


def test_the_refusal_names_the_first_message_and_how_many_more_there_are() -> None:
    repairs = Repairs()
    repairs.add(4, "is empty", "it is left out")
    repairs.add(2, "x" * 1_000, "it is left out")
    assert [one.index for one in repairs.made] == [2, 4]
    with pytest.raises(
        InvalidHistory, match=r"messages\[2\] x+ \(and 1 more\); History\(\.\.\., repair=True\)"
    ):
        repairs.refuse()
    assert repairs.made[0] == Repair(2, "x" * 300, "it is left out")


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0
