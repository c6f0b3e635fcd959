"""The answers to calls that waited: which tasks still ran at some moment since the reply."""

from callboard.actors.protocol import prompts
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegated, DelegationEnded
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.profiles import ModelSpec
from callboard.replay.testing.rules.waited import Waited

BEGIN = Begin(Json(b'{"name":"host"}'), NULL, ModelSpec("m", 10), Limits())


def told(*running: str) -> bytes:
    return bytes(encode(prompts.waited([*running])))


def waited() -> Waited:
    found = Waited()
    for body in (BEGIN, Delegated(1, 0, "host.1"), Delegated(1, 1, "host.2"), ModelReplied(2)):
        found.hear(body)
    return found


def test_an_answer_is_allowed_for_each_moment_since_the_reply_and_for_no_other() -> None:
    found = waited()
    found.hear(DelegationEnded(1, 0, "answered", "host.1"))
    assert found.allows(told("host.1", "host.2"))
    assert found.allows(told("host.2"))
    assert not found.allows(told("host.1"))
    assert not found.allows(told())
    found.hear(ModelReplied(3))
    assert not found.allows(told("host.1", "host.2"))


def test_an_answer_of_the_ask_before_may_be_sent_in_the_next() -> None:
    found = waited()
    found.hear(BEGIN)
    assert found.allows(told("host.1", "host.2"))
    assert found.allows(told())


def test_another_text_is_not_allowed() -> None:
    assert not waited().allows(b'"Still here"')
