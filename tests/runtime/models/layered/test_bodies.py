"""The conversations that were sent: the known beginning of the next one, and the oldest are dropped."""

from callboard.actors.protocol.immutable import Json
from callboard.runtime.models.layered.bodies import Known, SentConversations

KEY = ("s", "host")
NOTHING = Known()
MESSAGES = tuple(Json(b'{"n":%d}' % at) for at in range(6))


def kept(length: int, before: Known = NOTHING) -> SentConversations:
    sent = SentConversations()
    sent.keep(KEY, MESSAGES[:length], b"x" * length, before)
    return sent


def test_nothing_is_known_of_a_new_conversation() -> None:
    assert SentConversations().known(KEY, MESSAGES) == Known()


def test_the_beginning_that_was_sent_is_known() -> None:
    assert kept(3).known(KEY, MESSAGES) == Known(3, b"xxx")
    assert kept(3).known(KEY, MESSAGES[:3]) == Known(3, b"xxx")


def test_equal_messages_that_are_other_objects_are_not_known() -> None:
    assert kept(3).known(KEY, tuple(Json(bytes(one)) for one in MESSAGES)) == Known()


def test_a_turn_that_was_taken_back_leaves_the_part_before_it() -> None:
    sent = kept(5, Known(3, b"xxx"))
    assert sent.known(KEY, (*MESSAGES[:3], Json(b"{}"))) == Known(3, b"xxx")
    assert sent.known(KEY, MESSAGES[:2]) == Known()


def test_an_agent_that_ended_is_forgotten() -> None:
    sent = kept(3)
    sent.keep(("s", "host.1"), MESSAGES[:1], b"x", Known())
    sent.forget("s", "host")
    assert sent.known(KEY, MESSAGES) == Known()
    assert sent.known(("s", "host.1"), MESSAGES).messages == 1
    sent.forget("s", "")
    assert sent.known(("s", "host.1"), MESSAGES) == Known()


def test_beyond_the_bound_the_oldest_goes() -> None:
    sent = SentConversations(bytes_max=50)
    for name in "abc":
        sent.keep((name, "host"), MESSAGES[:1], b"x" * 10, Known())
    assert [sent.known((name, "host"), MESSAGES).messages for name in "abc"] == [0, 1, 1]


def test_one_conversation_beyond_the_bound_stays() -> None:
    sent = SentConversations(bytes_max=5)
    sent.keep(KEY, MESSAGES[:1], b"x" * 10, Known())
    assert sent.known(KEY, MESSAGES).messages == 1
