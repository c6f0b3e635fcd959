"""Single repairs of replies; that no reply is refused is tested for each service with fuzzed ones."""

import re
from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.conversation import message
from callboard.actors.protocol.repairs import InputRules, Mended, Mender, our_id
from callboard.runtime.models.anthropic.request import TAKES
from callboard.runtime.models.layered.dialects import GENERATE_CONTENT, RESPONSES
from tests.several_models import as_json, text, use
from tests.tables import table

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def mended(rules: InputRules, *blocks: object, mender: Mender | None = None, number: int = 1) -> Mended:
    said = message("assistant", as_json(blocks))
    return (mender or Mender(rules)).take(2 * number - 1, number, said, goes_on=False)


def blocks_of(found: Mended) -> list[Any]:
    content: list[Any] = msgspec.json.decode(found.said)["content"]
    return content


def test_a_reply_without_a_fault_is_the_same_object() -> None:
    said = message("assistant", as_json([THOUGHT, text("I look."), use("toolu_1")]))
    found = Mender(TAKES).take(1, 1, said, goes_on=False)
    assert found == Mended(said, {})
    assert found.said is said


def test_rules_that_state_nothing_change_nothing() -> None:
    part = {"part_kind": "text", "id": "i1"}
    blocks = [text(""), text("a", part=part), text("b"), text("c", part=part), use("c 1"), use("c 1")]
    blocks += [{"type": "server_tool_use", "id": "s1", "input": "{"}]
    blocks += [{"type": "thinking", "thinking": "Hm.", "part": {"id": item}} for item in ("r1", "r2", "r1")]
    found = mended(InputRules(), *blocks)
    assert (blocks_of(found), found.told, found.ids, found.is_open) == (blocks, (), {}, False)


def test_arguments_that_are_no_object_stand_under_a_key_that_says_so() -> None:
    found = mended(TAKES, {**use("c1"), "input": '{"path": "a'})
    assert blocks_of(found)[0]["input"] == {"unreadable": '{"path": "a'}
    assert found.told == (
        "message 2, block 1: arguments that are not a JSON object stand under the key `unreadable`",
    )


def test_the_reason_not_to_run_a_call_is_our_own_and_does_not_go_back() -> None:
    (call,) = blocks_of(mended(TAKES, {**use("c1"), "input": '{"path": "a"}', "refused": "it is doubled"}))
    assert call == {**use("c1"), "input": {"unreadable": '{"path": "a"}'}}


def test_arguments_of_a_services_own_tool_stand_under_that_key_too() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": '{"q'}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    sent = blocks_of(mended(TAKES, call, result, text("Found.")))
    assert sent[0]["input"] == {"unreadable": '{"q'}


def test_a_server_tool_that_called_one_of_ours_is_left_out_once_a_user_speaks_without_its_result() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
    ours = use("c1", caller={"tool_id": "s1"})
    mender = Mender(TAKES)
    first = mended(TAKES, ours, search, mender=mender)
    assert first.closed == message("assistant", as_json([ours]))
    second = mended(TAKES, text("Yes."), mender=mender, number=2)
    assert (second.closed, second.is_open) == (None, True), "the first is still to be closed"


def test_a_server_tool_beside_a_call_of_ours_stays_for_the_service_to_run_it_with_the_results() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    mender = Mender(TAKES)
    first = mended(TAKES, use("c1"), search, mender=mender)
    assert (first.told, first.is_open) == ((), True)
    second = mended(TAKES, found, text("Yes."), mender=mender, number=2)
    assert (second.told, second.is_open) == ((), False)


def test_the_result_of_a_server_tool_whose_call_was_cut_off_is_left_out() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    mender = Mender(TAKES)
    mended(TAKES, use("c1"), search, mender=mender)
    mender.close()
    assert blocks_of(mended(TAKES, found, text("Yes."), mender=mender, number=2)) == [text("Yes.")]


def test_an_empty_text_with_the_signature_of_the_reasoning_before_goes_back() -> None:
    assert len(blocks_of(mended(GENERATE_CONTENT.rules, THOUGHT, text("")))) == 2
    assert len(blocks_of(mended(GENERATE_CONTENT.rules, text("Hm."), text("")))) == 1


@table(
    ("rules", "name", "legal"),
    [
        (TAKES, "functions.look", "functions_look"),
        (TAKES, "n" * 130, "n" * 128),
        (InputRules(), "n" * 130, "n" * 64),
        (GENERATE_CONTENT.rules, "1st", "_1st"),
        (GENERATE_CONTENT.rules, "functions.look", "functions.look"),
    ],
)
def test_a_name_becomes_legal_for_its_service(rules: InputRules, name: str, legal: str) -> None:
    assert blocks_of(mended(rules, use("c1", name)))[0]["name"] == legal


def test_a_second_call_under_an_id_gets_one_of_ours_and_so_does_its_result() -> None:
    mender = Mender(TAKES)
    assert mended(TAKES, use("c1"), mender=mender).ids == {}
    found = mended(TAKES, use("c1"), use("c2"), use("c1"), mender=mender, number=2)
    ids = [block["id"] for block in blocks_of(found)]
    assert len({*ids, "c1"}) == 4
    assert {name: list(ours) for name, ours in found.ids.items()} == {"c1": [ids[0], ids[2]], "c2": ["c2"]}


def test_an_id_of_ours_is_used_too_and_no_later_call_may_have_it() -> None:
    rules = InputRules(is_unique=True)
    mender = Mender(rules)
    _, second = blocks_of(mended(rules, use("c1"), use("c1"), mender=mender))
    (third,) = blocks_of(mended(rules, use(second["id"]), mender=mender, number=2))
    assert len({"c1", second["id"], third["id"]}) == 3


def test_reasoning_at_the_end_and_empty_texts_are_left_out_and_something_stays() -> None:
    found = mended(TAKES, text("a"), text(""), THOUGHT)
    assert blocks_of(found) == [text("a")]
    assert found.told[1:] == ("message 2, block 3: reasoning at the end of a reply is left out",)
    assert blocks_of(mended(TAKES, text(""), THOUGHT)) == [text("(no words)")]


@pytest.mark.parametrize(
    ("least", "kept"),
    [("nothing", ["", " ", "a"]), ("a character", [" ", "a"]), ("a word", ["a"])],
)
def test_texts_with_less_than_their_service_takes_are_left_out(least: Any, kept: list[str]) -> None:
    rules = InputRules(texts=least)
    found = mended(rules, text(""), text(" "), text("a"))
    assert [block["text"] for block in blocks_of(found)] == kept
    left_out = [at for at, said in enumerate(("", " ", "a"), 1) if said not in kept]
    assert found.told == tuple(f"message 2, block {at}: a text without words is left out" for at in left_out)


@pytest.mark.parametrize(("blocks", "last"), [([], 1), ([THOUGHT], 1), ([THOUGHT, THOUGHT], 2)])
def test_a_reply_that_holds_nothing_says_so_at_its_last_block(blocks: list[object], last: int) -> None:
    found = mended(InputRules(ends_spoken=True), *blocks)
    assert blocks_of(found) == [text("(no words)")]
    assert found.told[-1] == f"message 2, block {last}: a reply without words goes as (no words)"


def test_reasoning_without_a_signature_goes_back_where_servers_take_it() -> None:
    unsigned = {"type": "thinking", "thinking": "Hm."}
    strict = TAKES._replace(needs_signature=True)
    assert blocks_of(mended(TAKES, unsigned, text("a"))) == [unsigned, text("a")]
    assert blocks_of(mended(strict, unsigned, text("a"))) == [text("a")]


def test_texts_and_thoughts_of_one_item_share_its_id_and_other_items_do_not() -> None:
    item = {"part": {"part_kind": "text", "id": "msg_1"}}
    for between in (text("c"), text("c", part={"part_kind": "text"})):
        said = [text("a", **item), text("b", **item), between, text("d", **item)]
        found = blocks_of(mended(RESPONSES.rules, *said))
        assert [block.get("part", {}).get("id") for block in found] == ["msg_1", "msg_1", None, None]


def test_a_server_tool_without_a_result_stays_until_a_user_speaks() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = mended(TAKES, text("I search."), search)
    assert found.told == ()
    assert found.closed == message("assistant", as_json([text("I search.")]))


def test_a_server_tool_that_calls_one_of_ours_stays_and_its_result_too() -> None:
    # As in recorded traffic: programmatic tool calling.
    code = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
    found = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": []}
    mender = Mender(TAKES)
    first = mended(TAKES, code, use("c1", caller={"tool_id": "s1"}), mender=mender)
    assert first.told == ()
    assert mended(TAKES, found, text("Warm."), mender=mender, number=2).told == ()


def test_a_block_of_a_form_of_its_own_stays_as_it_is() -> None:
    odd = {"type": "text", "text": {"parts": []}}
    assert blocks_of(mended(TAKES, odd)) == [odd]


def test_a_block_of_a_form_of_its_own_does_not_keep_its_neighbours_from_repair() -> None:
    odd = {"type": "text", "text": {"parts": []}}
    found = mended(TAKES, text(""), odd, {**use("c1"), "input": "{"})
    assert blocks_of(found) == [odd, {**use("c1"), "input": {"unreadable": "{"}}]
    assert [told[:18] for told in found.told] == ["message 2, block 1", "message 2, block 3"]


def test_reasoning_under_the_id_of_another_item_is_left_out() -> None:
    def thought(item: str) -> dict[str, object]:
        return {"type": "thinking", "thinking": "Hm.", "part": {"part_kind": "thinking", "id": item}}

    same, other, long = thought("rs_1"), thought("rs_2"), thought("r" * 65)
    found = mended(RESPONSES.rules, same, same, other, same, long, text("Yes."))
    assert blocks_of(found) == [same, same, other, text("Yes.")]
    why = "reasoning with the id of another item, or with a long one, is left out"
    assert found.told == (f"message 2, block 4: {why}", f"message 2, block 5: {why}")


def test_a_reply_of_one_text_goes_without_the_id_of_its_item_if_that_is_too_long() -> None:
    def said(item: str) -> dict[str, object]:
        return {"type": "text", "text": "Yes.", "part": {"part_kind": "text", "id": item}}

    assert blocks_of(mended(RESPONSES.rules, said("msg_1"))) == [said("msg_1")]
    (block,) = blocks_of(mended(RESPONSES.rules, said("m" * 65)))
    assert block == {"type": "text", "text": "Yes.", "part": {"part_kind": "text"}}


def test_a_reply_of_one_blank_text_says_that_it_holds_nothing() -> None:
    assert blocks_of(mended(InputRules(texts="a word"), text(" \n"))) == [text("(no words)")]


def test_an_id_in_a_part_that_the_service_refuses_is_left_out_and_that_of_the_call_goes() -> None:
    rules = InputRules(use_id=re.compile("[a-z0-9]+"))
    found = mended(rules, use("c1", part={"id": "i1", "tool_call_id": "c 1"}))
    assert blocks_of(found) == [use("c1", part={"id": "i1"})]
    assert found.told == ("message 2, block 1: the id 'c 1' goes as 'c1'",)
    (call,) = blocks_of(mended(rules, use("c1", part={"id": "i1", "tool_call_id": "t1"})))
    assert call["part"]["tool_call_id"] == "t1"


SIGNED = {"part": {"provider_details": {"signature": "s"}}}
UNSIGNED = {"type": "thinking", "thinking": "Hm."}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
OTHER_ITEM = "is left out: another item has it, or it is long"


def of_item(kind: str, item: str, **more: object) -> dict[str, object]:
    block = use("c1") if kind == "tool_use" else {"type": "text", "text": "a"}
    return {**block, **more, "part": {"id": item}}


def test_of_items_only_neighbours_of_one_kind_share_an_id_and_no_call_does() -> None:
    rules = InputRules(item_ids=True)
    long, longest = "i" * 65, "i" * 64
    for kinds_and_items, kept in (
        ([("text", "i1"), ("text", "i1")], [True, True]),
        ([("text", "i1"), ("tool_use", "i1")], [True, False]),
        ([("tool_use", "i1"), ("tool_use", "i1")], [True, False]),
        ([("text", longest), ("text", long)], [True, False]),
        # After an item that is refused, none goes on.
        ([("text", "i2"), ("text", "i1"), ("text", "i2"), ("text", "i1")], [True, True, False, False]),
    ):
        found = mended(rules, *[of_item(kind, item) for kind, item in kinds_and_items])
        assert ["id" in block["part"] for block in blocks_of(found)] == kept
        told = [
            f"message 2, block {at}: the id of its item, {item!r:.100}, {OTHER_ITEM}"
            for at, ((_, item), stays) in enumerate(zip(kinds_and_items, kept, strict=True), 1)
            if not stays
        ]
        assert [*found.told] == told
    for block in (use("c1", part={"tool_call_id": "t1"}), text("a", part={"part_kind": "text"})):
        found = mended(rules, block, block)
        assert (blocks_of(found), found.told) == ([block, block], ())


def test_calls_keep_the_ids_of_items_where_a_service_has_none() -> None:
    blocks = [of_item("tool_use", item, id=f"c{at}") for at, item in enumerate(["i1", "i1", "i" * 65])]
    found = mended(InputRules(), *blocks)
    assert (blocks_of(found), found.told) == (blocks, ())


def test_a_blank_text_is_left_out_unless_a_signature_stands_in_it_or_before_it() -> None:
    for rules in (TAKES, TAKES._replace(item_ids=True)):
        blank = text("", part={"id": "i1"})
        found = mended(rules, text("a"), blank, text("b", part={"id": "i1"}))
        assert blocks_of(found) == [text("a"), text("b", part={"id": "i1"})]
        assert found.told == ("message 2, block 2: a text without words is left out",)
        assert blocks_of(mended(rules, text("", **SIGNED), text("b"))) == [text("", **SIGNED), text("b")]


def test_reasoning_needs_a_signature_of_its_own_or_in_its_part_where_the_service_says_so() -> None:
    strict = InputRules(needs_signature=True, item_ids=True)
    hidden = {"type": "redacted_thinking", "data": "x"}
    in_part = {**UNSIGNED, "part": {"signature": "s", "id": "r1"}}
    for block, stays in ((UNSIGNED, False), (THOUGHT, True), (in_part, True), (hidden, True)):
        found = mended(strict, block, text("a"))
        assert blocks_of(found) == ([block] if stays else []) + [text("a")]
    # The item of reasoning that is left out is free for others.
    unsigned = {**UNSIGNED, "part": {"id": "r1"}}
    assert blocks_of(mended(strict, unsigned, text("a"), in_part, text("b")))[1:] == [in_part, text("b")]


def test_a_reason_not_to_run_a_call_never_goes_back() -> None:
    found = mended(TAKES, {**use("c1"), "refused": "it is doubled"})
    assert (blocks_of(found), found.told) == ([use("c1")], ())


def test_each_change_of_a_call_is_told() -> None:
    found = mended(TAKES, use("c1"), use("c1", "a.b"), number=3)
    ours = our_id(3, 1, "c1")
    assert blocks_of(found)[1]["id"] == ours
    assert found.told == (
        "message 6, block 2: the name 'a.b' goes as 'a_b'",
        f"message 6, block 2: the id 'c1' goes as '{ours}'",
    )


def test_a_result_of_the_services_tool_counts_only_if_no_user_has_spoken_in_between() -> None:
    for goes_on, sent in ((True, [FOUND, text("Yes.")]), (False, [text("Yes.")])):
        mender = Mender(TAKES)
        mended(TAKES, SEARCH, mender=mender)
        said = message("assistant", as_json([FOUND, text("Yes.")]))
        assert blocks_of(mender.take(3, 2, said, goes_on=goes_on)) == sent


def test_rules_that_are_not_stated_are_those_that_allow_all() -> None:
    stated = InputRules()
    assert stated[3:] == (False, "nothing", False, False, False, False, False)


def test_an_empty_text_needs_signed_reasoning_before_it_and_a_service_that_puts_the_signature_there() -> None:
    for signs_next in (True, False):
        for before in (THOUGHT, UNSIGNED):
            rules = InputRules(texts="a character", signs_next=signs_next)
            kept = blocks_of(mended(rules, before, text("")))
            assert len(kept) == 1 + (signs_next and before is THOUGHT)


def test_calls_of_a_services_own_tools_need_ids_of_their_own_too() -> None:
    why = "a call of a server's tool under the id of another is left out"
    found = mended(TAKES, SEARCH, FOUND, SEARCH, text("a"))
    assert blocks_of(found) == [SEARCH, FOUND, text("a")]
    assert (found.told, found.is_open) == ((f"message 2, block 3: {why}",), False)
    assert blocks_of(mended(TAKES, SEARCH, FOUND, use("s1")))[2]["id"] == our_id(1, 2, "s1")
    assert our_id(1, 2, "s1").startswith("cb_")


def test_only_the_calls_of_a_services_tools_without_a_result_go_once_a_user_speaks() -> None:
    other = {**SEARCH, "id": "s2"}
    for before in ([SEARCH, FOUND], [use("s2")], [text("a", id="s2")]):
        found = mended(InputRules(server_tools=True), *before, other)
        assert found.closed == message("assistant", as_json(before))


def test_a_block_whose_part_has_a_form_of_its_own_stays_beside_those_that_are_repaired() -> None:
    rules = InputRules(item_ids=True, texts="a word")
    odd = [text("a", part=3), use("c1", part=[1]), {**THOUGHT, "part": {"id": 5}}]
    found = mended(rules, *odd, text(" "))
    assert blocks_of(found) == odd
    assert found.told == ("message 2, block 4: a text without words is left out",)
