"""Histories: whole conversations are told from broken ones, and makers stay with their messages."""

import msgspec
from hypothesis import given

from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.histories import HandedHistory, history_of, origins_of, why_broken, with_makers
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import ContextMade
from tests.several_models import (
    CHAT,
    CLAUDE,
    Said,
    about_tools,
    as_json,
    conversations,
    hears,
    result,
    says,
    text,
    use,
)
from tests.tables import table

ASKED = hears(text("Go."))


def why(*said: Said) -> str:
    return why_broken(one.body for one in said)


@given(conversations())
def test_every_conversation_of_an_agent_is_whole(said: list[Said]) -> None:
    assert why(*said) == ""


@table(
    "said",
    [
        [says(CHAT, text("Hi."))],
        [ASKED, says(CHAT, use("1"))],
        [ASKED, says(CHAT, use("1"), use("2")), hears(result("1"))],
        [ASKED, says(CHAT, use("1"), use("2")), hears(result("2"), result("1"))],
        [ASKED, says(CHAT, use("1")), hears(text("Words."), result("1"))],
        [ASKED, says(CHAT, text("Hi.")), hears(result("1"))],
        [hears(result("1"))],
        [ASKED, about_tools()],
        [hears()],
    ],
)
def test_a_call_without_its_result_and_other_broken_conversations_are_named(said: list[Said]) -> None:
    assert why(*said)


def test_a_broken_conversation_is_named_by_its_message() -> None:
    assert why(ASKED, says(CHAT, use("1")), ASKED) == "message 3 has the results [] for the calls ['1']"
    assert why(ASKED, says(CHAT, use("1"))) == "the calls ['1'] have no results"
    assert why(about_tools()) == "message 1 is neither a user's nor, behind one, an assistant's"


@given(conversations())
def test_the_makers_of_messages_come_back_from_the_log(said: list[Said]) -> None:
    history = history_of((one.body, one.maker) for one in said)
    made = ContextMade("host", 1, "kid", "ok", history.note, "", history.messages, history.makers)
    again = decode(encode(made))
    assert isinstance(again, ContextMade)
    assert again == made
    back = with_makers(again.history, again.makers)
    assert [maker for (body, maker), one in zip(back, said, strict=True) if one.maker] == [
        one.maker for one in said if one.maker
    ]
    assert [bytes(body) for body, _ in back] == [bytes(one.body) for one in said]


def test_an_unchanged_maker_is_written_once() -> None:
    said = [ASKED, says(CLAUDE, text("a")), ASKED, says(CLAUDE, text("b")), ASKED, says(CHAT, text("c"))]
    history = history_of((one.body, one.maker) for one in said)
    assert history.makers == ((0, CLAUDE), (5, CHAT))
    assert [*origins_of(history.makers).items()] == [(0, CLAUDE), (5, CHAT)]


def test_a_begin_without_a_history_has_no_word_of_it() -> None:
    assert not {"history", "makers"} & {*Begin.__struct_fields__[:8]}
    bare = encode(ContextMade("host", 1, "kid"))
    assert not [key for key in ("history", "makers") if key in msgspec.json.decode(bare)]
    assert HandedHistory() == HandedHistory(note=Json(b"null"))
    assert as_json([]) == Json(b"[]")
