"""Timers that fire by their own time."""

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import CancelTimer, ExtendTimer, SetTimer
from callboard.replay.changed.due_timers import DueTimers, due_at


def posted(body: SetTimer | CancelTimer | ExtendTimer, at: int = 1_000) -> Event:
    return Event(1, at, SUPERVISOR, CLOCK, 0, body)


def test_the_first_due_timer_comes_first_and_once() -> None:
    timers = DueTimers()
    late, early = posted(SetTimer(1, 500)), posted(SetTimer(2, 200))
    timers.set(late)
    timers.set(early)
    assert timers.take_due(1_200) is None
    assert timers.take_due(1_201) is early
    assert timers.take_due(9_000) is late
    assert timers.take_due(9_000) is None


def test_a_cancelled_timer_never_fires_and_an_extended_one_later() -> None:
    timers = DueTimers()
    timers.set(posted(SetTimer(1, 500)))
    timers.set(posted(SetTimer(2, 500)))
    timers.note(posted(CancelTimer(1)))
    timers.note(posted(ExtendTimer(2, 1_000)))
    timers.note(posted(ExtendTimer(7, 1_000)))
    assert not timers.holds(1)
    assert timers.holds(2)
    assert timers.take_due(2_500) is None
    assert timers.take_due(2_501) is not None


def test_a_moment_that_has_passed_is_due_at_once() -> None:
    assert due_at(posted(SetTimer(1, until=2_000))) == 2_000
    assert due_at(posted(SetTimer(1, until=500))) == 1_000
