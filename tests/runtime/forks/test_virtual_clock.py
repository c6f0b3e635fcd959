"""The clock of a fork, with a monotonic clock that the test moves."""

import pytest

from callboard.runtime.forks import virtual_clock
from callboard.runtime.forks.virtual_clock import VirtualClock


class Real:
    """The monotonic clock of the process."""

    def __init__(self) -> None:
        self.ms = 5_000.0


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Real:
    made = Real()
    monkeypatch.setattr(virtual_clock, "monotonic_ms", lambda: made.ms)
    return made


def test_it_stands_until_it_runs(real: Real) -> None:
    clock = VirtualClock(100)
    real.ms += 50
    assert clock.now_ms() == 100
    clock.run(True)
    assert clock.now_ms() == 100
    real.ms += 7
    assert clock.now_ms() == 107


def test_it_keeps_its_time_when_it_stops_and_goes_on_from_there(real: Real) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 7
    clock.run(False)
    real.ms += 1_000
    assert clock.now_ms() == 107
    clock.run(True)
    real.ms += 3
    assert clock.now_ms() == 110


def test_to_let_it_run_again_changes_nothing(real: Real) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 7
    clock.run(True)
    real.ms += 7
    assert clock.now_ms() == 114
    clock.run(False)
    clock.run(False)
    assert clock.now_ms() == 114


def test_it_moves_forward_and_never_back(real: Real) -> None:
    clock = VirtualClock(100)
    clock.move_to(90)
    assert clock.now_ms() == 100
    clock.move_to(300)
    assert clock.now_ms() == 300
    clock.move_to(300)
    assert clock.now_ms() == 300


@pytest.mark.parametrize(("to", "found"), [(105, 110), (150, 150)])
def test_a_move_while_it_runs_counts_the_time_that_has_passed_once(real: Real, to: int, found: int) -> None:
    clock = VirtualClock(100)
    clock.run(True)
    real.ms += 10
    clock.move_to(to)
    assert clock.now_ms() == found
    real.ms += 10
    assert clock.now_ms() == found + 10
