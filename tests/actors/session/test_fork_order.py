"""The playback of a fork: which recorded answer, timer or input is next, and what happens to a request."""

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, CLOCK, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Ask
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.port_messages import CallTool, TimerFired, ToolReturned, ToolStarted
from callboard.actors.protocol.value_types import Effects
from callboard.actors.session.playback import (
    Asked,
    Fire,
    Give,
    Missed,
    Playback,
    Refused,
    Repost,
    Reuse,
    Thing,
    Work,
)
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recorded_answers import RecordedAnswers
from tests.actors.session.hand_written import Log
from tests.tables import table

AFTER = 100
"""The seq of the first event of a fork."""


class Fork:
    """A fork of a hand-written log, whose requests are written by hand too.

    own: the events of the fork that an earlier process posted.
    """

    def __init__(self, origin: Log, effects: Effects = "recorded", own: Sequence[Event] = ()) -> None:
        self.origin, self.effects = origin, effects
        self.playback = Playback(RecordedAnswers(origin.events, 0), effects)
        self.gate = PortGate()
        self.events = list(own)
        self.gate.on_events(self.events)
        self.playback.note(self.events)
        self.playback.note_own(self.events)

    def posts(self, event: Event) -> Event:
        """Post an event in the fork. Return it as it is there."""
        mine = Event(
            AFTER + len(self.events), event.at, event.sender, event.recipient, event.cause, event.body
        )
        self.events.append(mine)
        self.playback.note([mine])
        self.gate.on_events([mine])
        return mine

    def calls(self, *call: Any, **more: Any) -> Event:
        return self.posts(Log().calls(*call, **more))

    def checks(self, number: int) -> Event:
        return self.posts(Log().checks(number))

    def holds(self, request: Event) -> None:
        """Look a request up, and hold its recorded answer."""
        found = self.playback.admit(request, self.gate)
        assert isinstance(found, Reuse)
        self.playback.hold(request, found.found)

    def take(self, now: int = 0, *, is_working: bool = False, is_asked: bool = False) -> tuple[Thing, ...]:
        is_due = self.playback.is_due(now, self.gate, is_working=is_working, is_asked=is_asked)
        things = self.playback.take(now, self.gate, is_working=is_working, is_asked=is_asked)
        assert is_due == bool(things)
        return things

    def restarted(self) -> "Fork":
        """Return the fork in another process, which knows its log only."""
        return Fork(self.origin, self.effects, self.events)

    def same(self, call: Event) -> int:
        """Return the seq of the result of the same call that a person may choose; 0 for none."""
        found = self.playback.admit(call, self.gate)
        assert isinstance(found, Asked)
        return found.same.seq if found.same else 0


# --- the order of recorded answers -----------------------------------------------------------------


def test_the_lowest_recorded_seq_is_next_whatever_was_held_first() -> None:
    origin = Log()
    for text in "abc":
        origin.returns(origin.calls("look", 1, effect="read", text=text))
    fork = Fork(origin)
    asked = [fork.calls("look", 1, effect="read", text=text) for text in "cab"]
    for request in asked:
        fork.holds(request)
    order = [fork.take()[0] for _ in asked]
    assert [one.request.seq for one in order if isinstance(one, Give)] == [AFTER + 1, AFTER + 2, AFTER]
    assert [one.at for one in order if isinstance(one, Give)] == [2_000, 4_000, 6_000]
    assert fork.take() == ()


def test_answers_that_came_in_together_are_given_together() -> None:
    origin = Log()
    calls = [origin.calls("look", 1, number, "read") for number in range(3)]
    origin.returns(calls[0])
    origin.returns(calls[1])
    origin.add(SUPERVISOR, "host", Stop("deadline"))
    origin.returns(calls[2])
    fork = Fork(origin)
    for number in range(3):
        fork.holds(fork.calls("look", 1, number, "read"))
    assert [len(fork.take()) for _ in range(2)] == [2, 1]


def test_one_recorded_answer_may_wait_for_two_requests_at_once() -> None:
    """The recording has one check, the fork makes two of the same report side by side."""
    origin = Log()
    origin.checked(origin.checks(1))
    fork = Fork(origin)
    first, second = fork.checks(1), fork.checks(2)
    fork.holds(first)
    fork.holds(second)
    given = [thing for _ in range(2) for thing in fork.take()]
    assert [one.request for one in given if isinstance(one, Give)] == [first, second]


def test_an_answer_whose_request_has_its_answer_is_dropped() -> None:
    origin = Log()
    for number in (1, 2):
        origin.returns(origin.calls("look", number, effect="read"))
    fork = Fork(origin)
    first, second = (fork.calls("look", number, effect="read") for number in (1, 2))
    fork.holds(first)
    fork.holds(second)
    body = first.body
    assert isinstance(body, CallTool)
    fork.posts(Event(0, 0, TOOLS, "host", first.seq, ToolReturned(1, 0)))
    (given,) = fork.take()
    assert isinstance(given, Give)
    assert given.request == second


def test_a_recorded_cancellation_is_given_to_a_cancelled_call_only() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"), status="cancelled")
    wanted, unwanted = Fork(origin), Fork(origin)
    for fork in (wanted, unwanted):
        fork.holds(fork.calls("look", 1, effect="read"))
    unwanted.posts(Event(0, 0, SUPERVISOR, "host", 0, Stop("cancelled")))
    assert [type(one) for one in wanted.take()] == [Missed]
    assert [type(one) for one in unwanted.take()] == [Give]


# --- timers, inputs and the time --------------------------------------------------------------------


def fired(origin: Log, timer: int = 1) -> Event:
    return origin.add(CLOCK, SUPERVISOR, TimerFired(timer))


def test_a_timer_fires_at_its_recorded_place() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"))
    firing = fired(origin)
    origin.returns(origin.calls("look", 2, effect="read"))
    fork = Fork(origin)
    for turn in (2, 1):
        fork.holds(fork.calls("look", turn, effect="read"))
    fork.playback.arm(1, 7, firing.at - 500)
    kinds = [type(one) for _ in range(3) for one in fork.take()]
    assert kinds == [Give, Fire, Give]


def test_a_timer_that_is_due_later_than_recorded_waits_until_then() -> None:
    """Its agent began later than in the recording, so that its deadline is later too."""
    origin = Log()
    firing = fired(origin)
    fork = Fork(origin)
    fork.playback.arm(1, 7, firing.at + 500)
    assert fork.take(firing.at) == ()
    assert fork.playback.next_due(is_asked=False) == firing.at + 500
    assert fork.take(firing.at + 499) == ()
    assert fork.take(firing.at + 500) == (Fire(1, 7, firing.at + 500),)


def test_a_timer_that_is_due_when_it_was_recorded_fires_there() -> None:
    origin = Log()
    firing = fired(origin)
    fork = Fork(origin)
    fork.playback.arm(1, 7, firing.at)
    assert fork.take(firing.at) == (Fire(1, 7, firing.at),)


def test_a_timer_set_again_takes_the_first_recorded_firing_that_is_not_too_early() -> None:
    origin = Log()
    early, late, later = (fired(origin) for _ in range(3))
    fork = Fork(origin)
    fork.playback.arm(1, 7, early.at + 1)
    assert fork.playback.next_due(is_asked=False) == late.at < later.at
    assert fork.take() == (Fire(1, 7, late.at),)


def test_timers_without_a_recorded_firing_fire_in_the_order_of_their_times() -> None:
    fork = Fork(Log())
    fork.playback.arm(1, 7, 2_000)
    fork.playback.arm(2, 8, 1_000)
    fork.playback.arm(3, 9, 3_000)
    fork.playback.disarm(3)
    assert fork.take(999) == ()
    assert fork.playback.next_due(is_asked=False) == 1_000
    assert fork.take(2_000) == (Fire(2, 8, 1_000),)
    assert fork.take(2_000) == (Fire(1, 7, 2_000),)
    assert fork.take(9_000) == ()


def test_a_timer_that_is_due_before_the_next_answer_fires_first() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"))
    fork = Fork(origin)
    fork.holds(fork.calls("look", 1, effect="read"))
    fork.playback.arm(1, 7, 1_500)
    assert [type(one) for _ in range(2) for one in fork.take()] == [Fire, Give]


def test_a_timer_that_is_due_between_two_answers_parts_them() -> None:
    origin = Log()
    calls = [origin.calls("look", 1, number, "read") for number in range(2)]
    answers = [origin.returns(call) for call in calls]
    fork = Fork(origin)
    for number in range(2):
        fork.holds(fork.calls("look", 1, number, "read"))
    fork.playback.arm(1, 7, answers[0].at + 500)
    assert [type(one) for _ in range(3) for one in fork.take()] == [Give, Fire, Give]


def asks(origin: Log, name: str) -> Event:
    return origin.add(CLIENT, SUPERVISOR, Ask(name, text_json("go")))


def test_a_timer_that_is_due_before_a_recorded_firing_or_an_input_fires_first() -> None:
    """Their agents have deadlines that the recording did not have."""
    origin = Log()
    firing, given = fired(origin), asks(origin, "r")
    fork = Fork(origin)
    for timer, due in ((1, firing.at - 500), (2, firing.at - 1), (3, given.at - 1)):
        fork.playback.arm(timer, timer, due)
    assert [one for _ in range(4) for one in fork.take()] == [
        Fire(2, 2, firing.at - 1),
        Fire(1, 1, firing.at),
        Fire(3, 3, given.at - 1),
        Repost(given),
    ]


def test_while_a_port_works_an_input_waits_for_its_time() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"))
    given = asks(origin, "r")
    fork = Fork(origin)
    assert fork.take(given.at - 1, is_working=True) == ()
    assert fork.take(given.at, is_working=True) == (Repost(given),)


def test_while_a_port_works_a_held_answer_does_not_wait_for_its_time() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"))
    fork = Fork(origin)
    fork.holds(fork.calls("look", 1, effect="read"))
    assert [type(one) for one in fork.take(0, is_working=True)] == [Give]


def test_an_input_before_a_held_answer_does_not_wait_for_its_time_either() -> None:
    origin = Log()
    asks(origin, "first")
    given = asks(origin, "r")
    origin.returns(origin.calls("look", 1, effect="read"))
    fork = Fork(origin)
    fork.playback.inputs = [given]
    fork.holds(fork.calls("look", 1, effect="read"))
    assert [type(one) for _ in range(2) for one in fork.take(0, is_working=True)] == [Repost, Give]


def test_an_ask_waits_for_the_end_of_the_one_before() -> None:
    origin = Log()
    given = asks(origin, "r")
    fork = Fork(origin)
    assert fork.playback.asks_left() == 1
    assert fork.take(is_asked=True) == ()
    assert fork.playback.next_due(is_asked=True) is None
    assert fork.playback.next_due(is_asked=False) == given.at
    assert fork.take() == (Repost(given),)
    assert fork.playback.asks_left() == 0


def test_a_stopped_playback_has_nothing_left() -> None:
    origin = Log()
    asks(origin, "r")
    fork = Fork(origin)
    fork.playback.arm(1, 7, 0)
    fork.playback.stop()
    assert fork.take(9_000) == ()
    assert fork.playback.next_due(is_asked=False) is None


# --- tools with an effect ---------------------------------------------------------------------------


@table("effect", ["write", "idempotent"])
@table(
    ("effects", "kind", "ends_reuse"),
    [("recorded", Refused, False), ("ask", Asked, False), ("live", Work, True)],
)
def test_an_effect_without_a_recorded_result_is_refused_asked_about_or_run(
    effects: Effects, kind: type, ends_reuse: bool, effect: Effect
) -> None:
    """A question ends no reuse of reads: the person may say no."""
    fork = Fork(Log(), effects)
    assert isinstance(fork.playback.admit(fork.calls("send", 1, effect=effect), fork.gate), kind)
    assert fork.playback.is_after_effect == ends_reuse


@pytest.mark.parametrize("effects", ["recorded", "ask", "live"])
def test_a_read_without_a_recorded_result_runs(effects: Effects) -> None:
    fork = Fork(Log(), effects)
    assert isinstance(fork.playback.admit(fork.calls("look", 1, effect="read"), fork.gate), Work)
    assert not fork.playback.is_after_effect


@pytest.mark.parametrize("effects", ["recorded", "ask"])
def test_a_question_and_a_refusal_name_the_result_of_the_same_call(effects: Effects) -> None:
    origin = Log()
    result = origin.returns(origin.calls("send", 2)).seq
    fork = Fork(origin, effects)
    found = fork.playback.admit(fork.calls("send", 3), fork.gate)
    if isinstance(found, Refused):
        body = found.answer.body
        assert isinstance(body, ToolReturned)
        assert (body.status, body.same) == ("needs_effect", result)
    else:
        assert isinstance(found, Asked)
        assert found.same is not None
        assert found.same.seq == result


def test_a_chosen_result_is_used_up() -> None:
    origin = Log()
    origin.returns(origin.calls("send", 2))
    fork = Fork(origin, "ask")
    found = [fork.playback.admit(fork.calls("send", turn), fork.gate) for turn in (3, 4)]
    offered = [one.same for one in found if isinstance(one, Asked) and one.same]
    assert [fork.playback.choose(one) for one in offered] == [True, False]
    assert fork.same(fork.calls("send", 2)) == 0


def test_after_an_effect_no_read_is_reused() -> None:
    origin = Log()
    origin.returns(origin.calls("look", 1, effect="read"))
    origin.returns(origin.calls("send", 2))
    fork = Fork(origin, "ask")
    fork.playback.is_after_effect = True
    look = fork.calls("look", 1, effect="read")
    assert not fork.playback.has_answer(look, fork.gate)
    assert isinstance(fork.playback.admit(look, fork.gate), Work)
    assert isinstance(fork.playback.admit(fork.calls("send", 2), fork.gate), Reuse)


# --- a later process --------------------------------------------------------------------------------


def returned(call: Event, status: Any = "ok", reused: int = 0) -> Event:
    body = call.body
    assert isinstance(body, CallTool)
    return Event(0, 0, TOOLS, "host", call.seq, ToolReturned(body.turn, body.call, status, reused=reused))


@table(
    ("status", "ends_reuse"),
    [("ok", True), ("error", True), ("interrupted", True), ("cancelled", False), ("needs_effect", False)],
)
def test_a_later_process_knows_from_its_result_whether_an_effect_has_run(
    status: str, ends_reuse: bool
) -> None:
    fork = Fork(Log(), "ask")
    call = fork.calls("send", 1)
    fork.posts(Event(0, 0, TOOLS, "host", call.seq, ToolStarted(1, 0)))
    fork.posts(returned(call, status))
    assert fork.restarted().playback.is_after_effect == ends_reuse


def test_a_recorded_result_is_no_effect_of_the_fork() -> None:
    origin = Log()
    result = origin.returns(origin.calls("send", 1)).seq
    fork = Fork(origin, "ask")
    fork.posts(returned(fork.calls("send", 1), reused=result))
    again = fork.restarted()
    assert not again.playback.is_after_effect
    assert again.same(again.calls("send", 2)) == 0


@table(
    ("effects", "effect", "has_started", "ends_reuse"),
    [
        ("ask", "write", False, False),
        ("ask", "write", True, True),
        ("ask", "idempotent", False, True),
        ("live", "write", False, False),
        ("live", "idempotent", False, True),
        ("recorded", "idempotent", False, False),
        ("recorded", "write", False, False),
    ],
)
def test_a_later_process_reckons_with_an_effect_under_way(
    effects: Effects, effect: Effect, has_started: bool, ends_reuse: bool
) -> None:
    """A `write` says that it starts; an `idempotent` tool does not."""
    fork = Fork(Log(), effects)
    call = fork.calls("send", 1, effect=effect)
    if has_started:
        fork.posts(Event(0, 0, TOOLS, "host", call.seq, ToolStarted(1, 0)))
    assert fork.restarted().playback.is_after_effect == ends_reuse


def test_a_later_process_posts_the_inputs_that_are_left() -> None:
    origin = Log()
    first, second = asks(origin, "a"), asks(origin, "b")
    fork = Fork(origin)
    fork.posts(first)
    assert fork.restarted().playback.inputs == [second]
    fork.posts(second)
    assert fork.restarted().playback.inputs == []


def test_a_later_process_gives_the_answers_that_are_left() -> None:
    origin = Log()
    results = [origin.returns(origin.calls("send", turn)).seq for turn in (2, 3)]
    fork = Fork(origin, "ask")
    fork.posts(returned(fork.calls("send", 7), reused=results[0]))
    again = fork.restarted()
    assert again.same(again.calls("send", 8)) == results[1]
    assert again.same(again.calls("send", 2)) == results[1]  # its own has been given to another call
