"""What the supervisor does when a timer fires, and the one deadline of a program."""

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.messages import DeciderFailed, Delegate, Wake, Woken
from callboard.actors.protocol.port_messages import CancelTimer, SetTimer, TimerFired
from callboard.replay.testing.sessions.scenario import profile, program_profile
from tests.actors.harness import SessionHarness, said


def program() -> SessionHarness:
    head = SessionHarness(program_profile("host", ["kid"]), profile("kid")).opens()
    head.asks()
    return head


def test_a_later_deadline_takes_the_place_of_the_one_before_and_none_takes_it_back() -> None:
    head = program()
    assert [post.body for post in head.hears("host", Wake(5_000))] == [SetTimer(1, until=5_000)]
    posts = head.hears("host", Wake(6_000))
    assert [post.body for post in posts] == [CancelTimer(1), SetTimer(2, until=6_000)]
    assert [post.body for post in head.hears("host", Wake())] == [CancelTimer(2)]
    assert head.hears("host", Wake()) == []


def test_a_program_is_woken_once_for_its_deadline() -> None:
    head = program()
    head.hears("host", Wake(5_000))
    (woken,) = head.hears("clock", TimerFired(1))
    assert (woken.recipient, woken.body) == ("host", Woken(5_000))
    assert head.hears("clock", TimerFired(1)) == []
    assert [post.body for post in head.hears("host", Wake(7_000))] == [SetTimer(2, until=7_000)]


def test_a_program_that_has_ended_is_woken_no_more() -> None:
    head = program()
    head.hears("host", Wake(5_000))
    assert "clock:CancelTimer" in said(head.hears("host", DeciderFailed(1, "Boom")))
    assert head.hears("clock", TimerFired(1)) == []
    assert head.hears("host", Wake(9_000)) == []
    assert head.hears("host.7", Wake(9_000)) == []


def test_the_deadline_of_a_child_ends_it_and_not_the_ask() -> None:
    head = program()
    head.hears("host", Delegate(1, 0, ("kid",), text_json("go")))
    head.hears("host.1", Wake(5_000))
    (woken,) = head.hears("clock", TimerFired(1))
    assert woken.recipient == "host.1"
    assert head.session == "asking"
