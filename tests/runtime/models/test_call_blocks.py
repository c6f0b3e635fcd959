"""The calls of a stream of blocks: each once, and none with pieces that may be another one's."""

import pytest

from callboard.runtime.models.call_arguments import CONTRADICTED, DOUBLED, LOST, UNCLEAR, Settled
from callboard.runtime.models.call_blocks import CallBlock, once_each


def block(*pieces: str, index: object = 0, call_id: str = "a", is_stopped: bool = True) -> CallBlock:
    made = CallBlock(index, call_id, "look")
    for piece in pieces:
        made.add(piece)
    made.is_stopped = is_stopped
    return made


def test_a_call_without_arguments_has_none_once_its_end_was_told() -> None:
    assert block().settled() == Settled("{}")
    assert block(is_stopped=False).settled() == Settled("", LOST)


def test_a_piece_after_the_end_of_a_call_may_be_another_ones() -> None:
    call = block('{"a":1}')
    call.add("")
    assert not call.settled().why
    call.add(" ")
    assert call.settled() == Settled('{"a":1} ', UNCLEAR)


@pytest.mark.parametrize(("piece", "why"), [("", UNCLEAR), ('{"a":', UNCLEAR), ('{"a":1}', "")])
def test_a_call_begins_at_the_index_of_another_one_only_after_that_is_whole(piece: str, why: str) -> None:
    before, call = block(piece, is_stopped=False), block('{"b":1}', call_id="b")
    call.follows(before)
    assert call.settled().why == why


def test_a_call_that_comes_again_under_its_id_is_left_out() -> None:
    first, again, other = block("{}"), block("{}", index=1), block("{}", call_id="b")
    assert once_each([first, again, other]) == {again}


def test_calls_that_contradict_each_other_under_all_keys_do_not_run() -> None:
    calls = [block("{}"), block('{"a":1}')]
    assert not once_each(calls)
    assert [call.settled().why for call in calls] == [CONTRADICTED] * 2
    apart = [block("{}"), block('{"a":1}', index=1)]
    assert not once_each(apart)
    assert [call.settled().why for call in apart] == ["", ""]


def test_an_equal_call_without_an_id_at_the_same_index_does_not_run() -> None:
    calls = [block("{}", call_id=""), block("{}", call_id=""), block("{}", call_id="", index=1)]
    assert not once_each(calls)
    assert [call.settled().why for call in calls] == ["", DOUBLED, ""]
