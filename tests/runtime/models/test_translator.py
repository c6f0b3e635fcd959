"""The translations of an adapter: each message once, and the same as from the beginning."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.translation import Unsayable, messages_for
from callboard.runtime.models.translator import Translator, unsayable
from tests.several_models import (
    CHAT,
    CLAUDE,
    FILE,
    ORIGINS,
    Said,
    conversations,
    ends_of,
    hears,
    request_to,
    says,
    text,
)

MIXED = [hears(text("Go.")), says(CHAT, text("a")), hears(text("b"))]
MIXED += [says(CLAUDE, text("c")), hears(text("d"))]
CASES = ("taken back", "other model", "lossy", "other session", "forgotten", "too many")


def test_a_conversation_that_is_all_the_models_own_is_sent_as_it_is() -> None:
    request = request_to(CHAT, MIXED[:3])
    assert Translator().messages_for(request) is request.messages


@given(conversations(), st.sampled_from(ORIGINS))
def test_turn_after_turn_the_messages_are_the_same_as_from_the_beginning(
    said: list[Said], target: object
) -> None:
    translator = Translator()
    assert isinstance(target, type(CLAUDE))
    for length in ends_of(said):
        request = request_to(target, said[:length], session_id="s")
        assert translator.messages_for(request) == messages_for(request)


def test_a_message_that_was_sent_before_is_the_same_object() -> None:
    translator = Translator()
    sent = [translator.messages_for(request_to(CLAUDE, MIXED[:end], session_id="s")) for end in (3, 5, 5)]
    for before, after in itertools.pairwise(sent):
        assert all(one is other for one, other in zip(before, after, strict=False))
    assert sent[0][1] is not MIXED[1].body


@pytest.mark.parametrize(
    "case", ["taken back", "other model", "lossy", "other session", "forgotten", "too many"]
)
def test_another_conversation_is_translated_from_the_beginning(case: str) -> None:
    translator = Translator(conversations_max=1)
    request = request_to(CLAUDE, MIXED, session_id="s")
    before = translator.messages_for(request)
    other = [*MIXED[:4], hears(text("e"))]
    if case == "other model":
        translator.messages_for(request_to(ORIGINS[2], MIXED, session_id="s"))
    if case == "lossy":
        translator.messages_for(request_to(CLAUDE, MIXED, is_lossy=True, session_id="s"))
    if case == "too many":
        translator.messages_for(request_to(CLAUDE, MIXED, session_id="t"))
    if case == "forgotten":
        translator.forget("t")
        assert translator.messages_for(request)[1] is before[1]
        translator.forget("s", "host")
    said, where = other if case == "taken back" else MIXED, "t" if case == "other session" else "s"
    asked = request_to(CLAUDE, said, session_id=where)
    after = translator.messages_for(asked)
    assert after == messages_for(asked)
    assert after[1] is not before[1]


def test_a_block_that_cannot_be_said_is_refused_each_time_and_named() -> None:
    translator = Translator()
    said = [hears(text("Go.")), says(CHAT, text("a"), FILE), hears(text("b"))]
    request = request_to(CLAUDE, said, session_id="s")
    with pytest.raises(Unsayable):
        translator.messages_for(request)
    with pytest.raises(Unsayable) as caught:
        translator.messages_for(request)
    request.seq = 17
    failure = unsayable(request, caught.value)
    assert (failure.code, failure.is_retryable) == ("unsayable", False)
    assert failure.message.startswith(
        "message 2, block 2 (image with source file) of request 17 cannot be sent"
    )
    request.seq = 0
    assert "request" not in unsayable(request, caught.value).message
