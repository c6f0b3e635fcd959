"""What counts as the same decision, and what does not."""

from callboard.actors.protocol.addresses import CLOCK, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.messages import AnyMessage, Finished, TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import CancelTimer, ExtendTimer, SetTimer
from callboard.actors.protocol.usage import Usage
from callboard.replay.changed.compared import DueTimers, difference, due_at, paired


def output(seq: int, body: AnyMessage, to: str = SUPERVISOR) -> Event:
    return Event(seq, 0, "host", to, 1, body)


def test_figures_digests_and_timers_are_no_difference() -> None:
    recorded = [output(2, TurnRequested(2, digest="a", new=(1,))), output(3, SetTimer(1, 5_000), CLOCK)]
    assert difference(recorded, [Post(SUPERVISOR, TurnRequested(2, digest="b"))]) is None
    settled = [output(2, TurnSettled(Usage(1, 1)))]
    assert difference(settled, [Post(SUPERVISOR, TurnSettled(Usage(2, 2)))]) is None


def test_another_kind_a_missing_and_a_further_post_are_differences() -> None:
    recorded = [output(2, TurnRequested(2)), output(3, TurnRequested(3))]
    other = difference(recorded, [Post(SUPERVISOR, Finished("answered", "ok"))])
    assert other is not None
    assert (other.seq, other.kind, other.path) == (2, "changed", "")
    fewer = difference(recorded, [Post(SUPERVISOR, TurnRequested(2))])
    assert fewer is not None
    assert (fewer.seq, fewer.kind, fewer.now) == (3, "missing", "")
    more = difference([], [Post(SUPERVISOR, TurnRequested(2))])
    assert more is not None
    assert (more.seq, more.kind, more.recorded) == (0, "extra", "")


def test_a_difference_names_the_first_value_that_differs() -> None:
    found = difference(
        [output(2, Finished("answered", "yes"))], [Post(SUPERVISOR, Finished("answered", "no"))]
    )
    assert found is not None
    assert (found.path, found.recorded, found.now) == ("Finished.text", '"yes"', '"no"')


def test_timers_are_paired_by_their_time_first() -> None:
    recorded = [output(2, SetTimer(1, 500), CLOCK), output(3, SetTimer(2, 900), CLOCK)]
    made = [
        output(2, SetTimer(1, 100), CLOCK),
        output(3, SetTimer(2, 500), CLOCK),
        output(4, SetTimer(3, 900), CLOCK),
    ]
    assert {(mine.seq, theirs.seq) for mine, theirs in paired(recorded, made)} == {(2, 3), (3, 4)}


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
