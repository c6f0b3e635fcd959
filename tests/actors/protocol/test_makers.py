"""The makers of a conversation, kept in runs."""

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.conversation import is_by, message, system_message, text_block, text_json
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.makers import NO_ORIGINS, maker_of, mark, with_reply, without_system
from callboard.actors.protocol.origin import Origin, named
from tests.several_models import CHAT, CLAUDE, ORIGINS, about_tools


def test_a_conversation_with_one_model_has_one_run_that_all_such_conversations_share() -> None:
    runs = with_reply(NO_ORIGINS, 1, Origin(model="m"))
    assert runs is with_reply(NO_ORIGINS, 5, named("m"))
    assert with_reply(runs, 3, named("m")) is runs
    assert maker_of(runs)(3) == Origin(model="m")


def test_no_maker_is_known_of_a_conversation_without_replies() -> None:
    assert maker_of(NO_ORIGINS)(0) is None


def test_marks_tell_origins_apart() -> None:
    assert mark(CLAUDE) != mark(CHAT)
    assert len({bytes(mark(one)) for one in ORIGINS}) == len(ORIGINS)


@given(st.lists(st.one_of(st.none(), st.sampled_from(ORIGINS)), max_size=90))
def test_the_maker_of_each_message_is_found(made: list[Origin | None]) -> None:
    runs = NO_ORIGINS
    for place, maker in enumerate(made):
        if maker is not None:
            runs = with_reply(runs, place, maker)
    find = maker_of(runs)
    assert all(find(place) == maker for place, maker in enumerate(made) if maker is not None)


@given(st.lists(st.sampled_from(["user", "system", *ORIGINS]), max_size=70))
def test_the_makers_stay_known_when_messages_about_tools_go(said: list[str | Origin]) -> None:
    history: IntMap[Json] = IntMap()
    runs = NO_ORIGINS
    for place, one in enumerate(said):
        if isinstance(one, Origin):
            runs = with_reply(runs, place, one)
            history = history.append(message("assistant", text_json(one.model + one.provider)))
        else:
            other = message("user", text_json("u"))
            history = history.append(about_tools().body if one == "system" else other)
    kept, makers = without_system(history, runs)
    find = maker_of(makers)
    rest = [one for one in said if one != "system"]
    assert [find(place) for place, one in enumerate(rest) if isinstance(one, Origin)] == [
        one for one in rest if isinstance(one, Origin)
    ]
    assert [*kept.values()] == [one for one in history.values() if not is_by("system", one)]


def test_the_role_of_a_message_is_told_by_its_beginning() -> None:
    for role in ("user", "assistant"):
        made = message(role, text_json("x"))
        assert [one for one in ("user", "assistant", "system") if is_by(one, made)] == [role]
    assert is_by("system", system_message((text_block("x"),)))
