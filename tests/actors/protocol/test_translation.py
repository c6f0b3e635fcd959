"""Conversations of several models, as each of them reads them."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.conversation import is_by, message
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.makers import NO_ORIGINS
from callboard.actors.protocol.origin import Origin
from callboard.actors.protocol.repair_levels import START, Repair
from callboard.actors.protocol.repairs import our_id
from callboard.actors.protocol.spoken_calls import in_words
from callboard.actors.protocol.translation import (
    GO_ON,
    Reader,
    Unsayable,
    is_all_own,
    is_as_said,
    messages_for,
)
from callboard.replay.testing.input_rules.messages import problem_of
from callboard.runtime.models.anthropic.request import TAKES
from tests.several_models import (
    CHAT,
    CLAUDE,
    DOCUMENT,
    FILE,
    GEMINI,
    IMAGE,
    ORIGINS,
    RESPONSES,
    TOOLS,
    Said,
    about_tools,
    as_json,
    conversations,
    decoded,
    ends_of,
    hears,
    request_to,
    result,
    says,
    starts_as,
    text,
    use,
)
from tests.tables import table

LEGAL = re.compile("[a-zA-Z0-9_-]{1,64}")  # to every service, as the id of a call or the name of a tool
ASKED = hears(text("Go."))
ORIGIN = st.sampled_from(ORIGINS)


def read(target: Origin, *said: Said, is_lossy: bool = False) -> list[dict[str, Any]]:
    return decoded(messages_for(request_to(target, said, is_lossy=is_lossy)))


def reply(target: Origin, *blocks: object) -> list[dict[str, Any]]:
    """Return the blocks of GPT's message, as another model reads them."""
    found = read(target, ASKED, says(CHAT, *blocks), hears(text("Next.")))
    return found[1]["content"] if found[1]["role"] == "assistant" else []


def calls_in(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    contents = [one["content"] for one in messages if isinstance(one["content"], list)]
    return [block for content in contents for block in content if block["type"] == "tool_use"]


# --- one message ------------------------------------------------------------------------------


def test_the_blocks_of_the_model_itself_are_the_same_objects() -> None:
    said = [ASKED, says(CLAUDE, {"type": "thinking", "thinking": "", "signature": "s"}), hears(text("a"))]
    said += [says(CHAT, text("b")), hears(text("c"))]
    sent = messages_for(request_to(CLAUDE, said))
    assert [one is before.body for one, before in zip(sent, said, strict=True)] == [True] * 3 + [False, True]


def test_a_text_goes_without_all_that_stood_beside_it() -> None:
    assert reply(CLAUDE, text("Hi.", part={"id": "msg_1"}, citations=[])) == [text("Hi.")]


def test_a_blank_text_is_left_out_and_with_it_a_message_of_nothing_else() -> None:
    assert reply(CLAUDE, text(" \n"), text("Hi.")) == [text("Hi.")]
    assert [one["role"] for one in read(CLAUDE, ASKED, says(CHAT, text(" ")), hears(text("?")))] == [
        "user"
    ] * 2


@table(
    "kind",
    [
        "thinking",
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "compaction",
        "container_upload",
        "builtin-tool-call",
        "builtin-tool-return",
    ],
)
def test_reasoning_and_the_calls_of_a_service_are_left_out(kind: str) -> None:
    assert reply(CLAUDE, {"type": kind, "part": {}}, text("Hi.")) == [text("Hi.")]


def test_a_call_gets_an_id_of_ours_and_its_result_the_same() -> None:
    said = [ASKED, says(CHAT, use("fc:1", part={}), use("fc:2", "save", {"a": 1}))]
    sent = read(CLAUDE, *said, hears(result("fc:1", is_error=True), result("fc:2"), text("Words.")))
    one, two = sent[1]["content"]
    assert (one["name"], one["input"], one.keys()) == ("look", {}, {"type", "id", "name", "input"})
    assert (two["name"], two["input"]) == ("save", {"a": 1})
    assert sent[2]["content"] == [result(one["id"], is_error=True), result(two["id"]), text("Words.")]
    assert len({one["id"], two["id"], "fc:1", "fc:2"}) == 4
    assert all(len(call["id"]) <= 40 and call["id"].startswith("cb_") for call in (one, two))


@pytest.mark.parametrize("origin", [CLAUDE, CHAT])
def test_a_raised_level_gives_ids_of_nine_letters_and_digits(origin: Origin) -> None:
    said = [ASKED, says(CHAT, use("fc:1"), use("fc:2")), hears(result("fc:1"), result("fc:2"))]
    request = request_to(origin, said)
    request.repair = Repair(1, 1)
    sent = decoded(messages_for(request))
    ids = [block["id"] for block in sent[1]["content"]]
    assert [block["tool_use_id"] for block in sent[2]["content"]] == ids
    assert len(set(ids)) == 2
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in ids)


@pytest.mark.parametrize("origin", [CLAUDE, CHAT])
def test_the_highest_level_says_the_messages_of_the_one_below_in_words(origin: Origin) -> None:
    said = [ASKED, says(CHAT, use("fc:1"), text("Hm.")), hears(result("fc:1", "seen"), text("Next."))]
    request = request_to(origin, said)
    request.repair = Repair(1, 1)
    in_calls = messages_for(request)
    request.repair = Repair(2, 1)
    sent = messages_for(request)
    assert sent == in_words(in_calls) != in_calls
    assert not calls_in(decoded(sent))


def test_doubled_ids_are_told_apart_by_their_order() -> None:
    twice = [says(CHAT, use("0"), use("0", "save")), hears(result("0", "a"), result("0", "b"))]
    sent = read(CLAUDE, ASKED, *twice, *twice)
    ids = [call["id"] for call in calls_in(sent)]
    answers = [(block["tool_use_id"], block["content"]) for at in (2, 4) for block in sent[at]["content"]]
    assert len({*ids}) == 4
    assert answers == list(zip(ids, "abab", strict=True))


def test_a_name_that_no_service_takes_is_made_legal_and_arguments_that_are_no_object_become_one() -> None:
    (call,) = reply(CLAUDE, {**use("1", "functions.look me" + "x" * 80), "input": '{"a": 1'})
    assert call["name"] == "functions_look_me" + "x" * 47
    assert call["input"] == {"unreadable": '{"a": 1'}


def test_an_image_of_a_model_goes_with_the_next_message_of_the_user_behind_the_results() -> None:
    said = [
        ASKED,
        says(GEMINI, use("1"), {**IMAGE, "part": {}}, DOCUMENT),
        hears(result("1"), text("Words.")),
    ]
    sent = read(CLAUDE, *said)
    assert [block["type"] for block in sent[1]["content"]] == ["tool_use"]
    assert sent[2]["content"][1:] == [text("Made by the assistant:"), IMAGE, DOCUMENT, text("Words.")]
    assert sent[2]["content"][0]["type"] == "tool_result"


def test_an_image_waits_for_a_user_however_short_the_prompt() -> None:
    said = [ASKED, says(GEMINI, IMAGE), Said(as_json({"role": "user", "content": "And?"}))]
    assert read(CLAUDE, *said)[1]["content"] == [text("Made by the assistant:"), IMAGE, text("And?")]


def test_a_user_speaks_between_the_messages_of_two_models_and_after_one_of_another() -> None:
    paused = [ASKED, says(CHAT, text("a"))]
    assert read(CLAUDE, *paused)[2:] == decoded([GO_ON])
    assert read(CHAT, *paused)[2:] == []
    both = [*paused, says(CLAUDE, text("b")), says(CLAUDE, text("c")), hears(text("d"))]
    roles = [one["role"] for one in read(CLAUDE, *both)]
    assert roles == ["user", "assistant", "user", "assistant", "assistant", "user"]
    assert [one["role"] for one in read(CHAT, *both)] == ["user"] + ["assistant", "user"] * 3
    drawn = [ASKED, says(GEMINI, IMAGE), says(CLAUDE, text("b")), hears(text("c"))]
    shown = [text("Made by the assistant:"), IMAGE, text("Continue.")]
    assert [one["content"] for one in read(CLAUDE, *drawn)[1:]] == [shown, [text("b")], [text("c")]]


# --- blocks that cannot be said ----------------------------------------------------------------


def test_an_own_message_is_not_the_last_word_if_another_was_left_out_after_it() -> None:
    said = (ASKED, says(CLAUDE, text("a")), says(CHAT, {"type": "thinking", "thinking": "Hm."}))
    assert read(CLAUDE, *said)[2:] == decoded([GO_ON])
    assert [one["role"] for one in read(CLAUDE, *said, hears(text("b")))] == ["user", "assistant", "user"]


@table(
    "block",
    [
        FILE,
        {"type": "image"},
        {"type": "hologram", "part": {}},
        {"type": "text"},
        {"type": "tool_use", "id": 1},
    ],
    ids=str,
)
def test_any_other_block_is_refused_with_its_place_or_replaced_by_a_text(block: dict[str, Any]) -> None:
    said = [ASKED, says(CHAT, text("a"), block), hears(text("b"))]
    with pytest.raises(Unsayable, match=f"message 2, block 2 .{block['type']}") as caught:
        read(CLAUDE, *said)
    assert (caught.value.place, caught.value.block) == (1, 1)
    assert caught.value.kind.startswith(block["type"])
    sent = read(CLAUDE, *said, is_lossy=True)
    texts = [one["text"] for message in sent for one in message["content"]]
    assert (
        sum(
            one.startswith(f"[Left out, since it cannot be sent to this model: {block['type']}")
            for one in texts
        )
        == 1
    )


def test_an_adapter_says_which_blocks_of_a_user_it_can_send() -> None:
    def can_send(kind: str, source: str) -> bool:
        return kind == "text" or (kind, source) == ("image", "base64")

    def sent(*blocks: object, is_lossy: bool = False) -> tuple[Json, ...]:
        return messages_for(request_to(CLAUDE, [hears(*blocks)], is_lossy=is_lossy), can_send)

    fine = hears(text("a"), IMAGE, result("1", [IMAGE]), result("2"))
    assert messages_for(request_to(CLAUDE, [fine]), can_send)[0] is fine.body
    with pytest.raises(Unsayable, match=r"message 1, block 2 .image with source file"):
        sent(text("a"), FILE)
    with pytest.raises(Unsayable, match=r"message 1, block 1 .document with source text"):
        sent(result("1", [text("a"), DOCUMENT]))
    with pytest.raises(Unsayable, match=r"block 1 .unknown"):
        sent({"kind": "none"})
    ((found,),) = [one["content"] for one in decoded(sent(result("1", [DOCUMENT]), is_lossy=True))]
    assert found["content"][0]["text"].endswith("document with source text]")


@pytest.mark.parametrize("content", ["plain", None, [], [{"type": "text", "text": "a", "source": "odd"}]])
def test_a_message_in_any_form_is_the_same_object_if_the_adapter_can_send_it(content: object) -> None:
    said = Said(message("user", as_json(content)))
    (sent,) = messages_for(request_to(CLAUDE, [said]), lambda kind, source: True)
    assert sent is said.body


def test_a_block_that_cannot_be_sent_is_found_beside_one_of_an_odd_form() -> None:
    odd = {"type": "text", "text": "a", "content": 3}
    with pytest.raises(Unsayable, match="block 2"):
        messages_for(request_to(CLAUDE, [hears(odd, {"type": "video"})]), lambda kind, source: kind == "text")


def test_a_result_of_no_call_is_refused() -> None:
    with pytest.raises(Unsayable, match=r"message 3, block 2 .tool_result without its call"):
        read(CLAUDE, ASKED, says(CHAT, use("1")), hears(result("1"), result("1")))


def test_only_blocks_that_the_agent_was_handed_are_replaced() -> None:
    reader = Reader(CLAUDE, None, is_lossy=False, handed=(2, 1), rules=None, repair=START)
    odd = {"type": "hologram"}
    for one in (ASKED, says(CHAT, text("a"), odd)):
        reader.take(one.body, one.maker or CHAT)
    with pytest.raises(Unsayable, match="message 3, block 2"):
        reader.take(says(CHAT, odd, odd).body, CHAT)
    _, replaced, *_ = decoded(reader.sent)
    assert replaced["content"][1]["text"].startswith("[Left out")


def test_a_call_of_another_model_that_an_own_message_follows_is_not_that_of_its_results() -> None:
    said = [ASKED, says(CHAT, use("1")), says(CLAUDE, use("2")), hears(result("2"))]
    assert read(CLAUDE, *said)[-1]["content"] == [result("2")]


def test_an_adapter_is_asked_once_about_each_form() -> None:
    asked: list[tuple[str, str]] = []

    def can_send(kind: str, source: str) -> bool:
        asked.append((kind, source))
        return True

    request = request_to(CLAUDE, [hears(text("a"), IMAGE), hears(text("b"), text("c")), hears(IMAGE)])
    assert messages_for(request, can_send) is request.messages
    assert sorted(asked) == [("image", "base64"), ("text", "")]


def test_a_message_of_a_model_without_a_maker_is_that_of_the_model_that_is_asked() -> None:
    own = Said(says(CLAUDE, text("a", part={})).body)
    request = request_to(CLAUDE, [ASKED, own])
    request.origins = NO_ORIGINS
    assert is_as_said(request, None, None) is True
    assert is_all_own(request) is True
    assert messages_for(request, rules=TAKES) is request.messages


def test_a_message_about_tools_stays() -> None:
    said = [ASKED, says(CHAT, use("1")), hears(result("1")), about_tools()]
    assert read(CLAUDE, *said)[3] == decoded([about_tools().body])[0]


# --- any conversation --------------------------------------------------------------------------


@given(conversations(), ORIGIN)
def test_each_model_gets_its_own_messages_back_as_they_were(said: list[Said], target: Origin) -> None:
    sent = messages_for(request_to(target, said))
    own = [one.body for one in said if one.maker == target]
    assert [one for one in sent if any(one is mine for mine in own)] == own


@given(conversations(), ORIGIN)
def test_texts_and_calls_of_another_model_have_no_key_of_their_maker(
    said: list[Said], target: Origin
) -> None:
    own = [one.body for one in said if one.maker == target]
    for one in messages_for(request_to(target, said)):
        if is_by("assistant", one) and not any(one is mine for mine in own):
            for block in decoded([one])[0]["content"]:
                assert block.keys() in ({"type", "text"}, {"type", "id", "name", "input"})


@given(conversations())
def test_the_messages_api_takes_what_is_sent(said: list[Said]) -> None:
    sent = decoded(messages_for(request_to(CLAUDE, said), rules=TAKES))
    body = {"model": "m", "max_tokens": 1, "messages": sent, "tools": TOOLS}
    assert problem_of(body) == problem_of(body, "2026-10-21") == ""


@given(conversations(), ORIGIN)
def test_every_call_is_answered_once_in_the_next_message_in_order(said: list[Said], target: Origin) -> None:
    sent = decoded(messages_for(request_to(target, said)))
    for one, after in itertools.pairwise(sent):
        ids = [call["id"] for call in calls_in([one])]
        blocks = after["content"] if isinstance(after["content"], list) else []
        assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == ids
    others = [call for call in calls_in(sent) if call["id"].startswith("cb_") and len(call["id"]) > 30]
    assert len(others) == len({call["id"] for call in others})
    assert all(LEGAL.fullmatch(call["id"]) and LEGAL.fullmatch(call["name"]) for call in others)


@given(conversations(), ORIGIN)
def test_one_model_is_sent_a_conversation_that_only_grows(said: list[Said], target: Origin) -> None:
    sent = [messages_for(request_to(target, said[:length])) for length in ends_of(said)]
    for before, after in itertools.pairwise(sent):
        assert starts_as(before, after)


def test_origins_that_differ_in_anything_are_others() -> None:
    for other in (
        Origin("layered", "openai-chat", "https://gateway.example", "gpt-5"),
        Origin("layered", "openai-chat", CHAT.endpoint, "gpt-5-mini"),
        Origin("own", "openai-chat", CHAT.endpoint, "gpt-5"),
        RESPONSES,
    ):
        assert read(other, ASKED, says(CHAT, text("a", part={})), hears(text("b")))[1]["content"] == [
            text("a")
        ]


def test_a_server_tool_without_a_result_leaves_its_reply_once_a_user_speaks() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    said = [ASKED, says(CLAUDE, text("I search."), search)]
    for more, kept in (([], [text("I search."), search]), ([hears(text("Next."))], [text("I search.")])):
        sent = decoded(messages_for(request_to(CLAUDE, [*said, *more]), rules=TAKES))
        assert sent[1]["content"] == kept


def test_a_server_tool_beside_a_call_of_ours_is_over_once_a_user_speaks() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    said = [
        ASKED,
        says(CLAUDE, use("c1"), search),
        hears(result("c1"), text("Stop.")),
        says(CLAUDE, found, text("b")),
    ]
    sent = decoded(messages_for(request_to(CLAUDE, [*said, hears(text("Next."))]), rules=TAKES))
    assert [one["content"] for one in sent[1::2]] == [[use("c1")], [text("b")]]


def test_a_repair_names_its_message_and_no_two_calls_get_one_id() -> None:
    reader = Reader(CLAUDE, None, is_lossy=False, handed=(0, 0), rules=TAKES, repair=START)
    calls, answered = [use("c1"), use("c1")], hears(result("c1"), result("c1"))
    said = [
        ASKED,
        says(CLAUDE, *calls),
        answered,
        says(CHAT, text("b")),
        ASKED,
        says(CLAUDE, *calls),
        answered,
    ]
    for one in said:
        reader.take(one.body, one.maker or CHAT)
    sent = decoded(reader.sent)
    ids = [call["id"] for call in calls_in(sent)]
    assert len(set(ids)) == 4
    assert [block["tool_use_id"] for at in (2, 6) for block in sent[at]["content"]] == ids
    assert [told.partition(": the id")[0] for told in reader.repairs] == [
        "message 2, block 2",
        "message 6, block 1",
        "message 6, block 2",
    ]


def test_ids_of_ours_in_repaired_replies_count_all_replies() -> None:
    reader = Reader(CLAUDE, None, is_lossy=False, handed=(0, 0), rules=TAKES, repair=START)
    for one in [says(CLAUDE, use("c1"), use("c1")), hears(result("c1"), result("c1"))] * 2:
        reader.take(one.body, one.maker or CHAT)
    ids = [call["id"] for call in calls_in(decoded(reader.sent))]
    assert ids == ["c1", our_id(1, 1, "c1"), our_id(2, 0, "c1"), our_id(2, 1, "c1")]


def test_a_search_beside_a_call_of_ours_stays_once_it_has_its_result() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    said = [ASKED, says(CLAUDE, use("c1"), search), hears(result("c1")), says(CLAUDE, found, text("b"))]
    request = request_to(CLAUDE, [*said, hears(text("Next."))])
    assert messages_for(request, rules=TAKES) is request.messages


def test_a_search_goes_on_in_the_next_reply_and_is_over_where_a_user_speaks() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    over = "message 2: calls of the service's tools without a result are left out"
    for between, kept, told in (
        ([], [[search], [found, text("b")]], []),
        ([ASKED], [[text("(no words)")], [text("b")]], [over]),
    ):
        reader = Reader(CLAUDE, None, is_lossy=False, handed=(0, 0), rules=TAKES, repair=START)
        for one in (ASKED, says(CLAUDE, search), *between, says(CLAUDE, found, text("b"))):
            reader.take(one.body, one.maker or CHAT)
        sent = decoded(reader.sent)
        assert [one["content"] for one in sent if one["role"] == "assistant"] == kept
        assert [one for one in reader.repairs if ", block" not in one] == told


def test_ids_of_ours_are_those_of_the_conversations_under_way() -> None:
    said = [ASKED, says(CHAT, use("1")), hears(result("1")), says(CHAT, use("1")), hears(result("1"))]
    assert [call["id"] for call in calls_in(read(CLAUDE, *said))] == [
        "cb_91eb0803455cba78dde5f7607b3f6720",
        "cb_c54da05c452e96afabe00ec814e1f386",
    ]
    request = request_to(CLAUDE, said)
    request.repair = Repair(1, 1)
    assert [call["id"] for call in calls_in(decoded(messages_for(request)))] == ["azz6t5bmx", "g44dokazo"]
