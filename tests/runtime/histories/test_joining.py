"""Words, calls and results become messages in which each call has its result."""

from collections.abc import Sequence

import msgspec

from callboard.actors.protocol.histories import why_broken
from callboard.actors.protocol.origin import Origin
from callboard.runtime.histories.content import Repairs, text_of
from callboard.runtime.histories.history import Joiner
from callboard.runtime.histories.shapes import Call, Result, Said, Words

ONE, OTHER = Origin(adapter="one"), Origin(adapter="other")


def join(*items: tuple[Sequence[Said], Origin]) -> tuple[list[list[str]], list[Origin | None], list[str]]:
    """Return the types of the blocks of each message, their makers, and the faults."""
    repairs = Repairs()
    joiner = Joiner(repairs)
    for index, (said, maker) in enumerate(items):
        joiner.take(index, said, maker)
    made = joiner.messages()
    assert why_broken(one for one, _ in made) == ""
    kinds = [[block["type"] for block in msgspec.json.decode(one)["content"]] for one, _ in made]
    return kinds, [maker for _, maker in made], [one.fault for one in repairs.made]


HEARD = ([Words("user", text_of("a"))], ONE)
SAID = ([Words("assistant", text_of("b"))], ONE)
CALLED = ([Call("i", "n", {})], ONE)
ENDED = ([Result("i", "", "x")], ONE)


def test_replies_of_one_maker_are_one_message_until_results_end_it() -> None:
    kinds, makers, faults = join(HEARD, SAID, CALLED, ENDED, SAID)
    assert kinds == [["text"], ["text", "tool_use"], ["tool_result"], ["text"]]
    assert makers == [None, ONE, None, ONE]
    assert faults == []


def test_replies_of_two_makers_stay_two_messages() -> None:
    assert join(HEARD, SAID, (SAID[0], OTHER))[:2] == ([["text"]] * 3, [None, ONE, OTHER])


def test_the_last_call_without_a_result_gets_one() -> None:
    kinds, _, faults = join(HEARD, CALLED)
    assert kinds == [["text"], ["tool_use"], ["tool_result"]]
    assert faults == ["has the call 'i' of n, which has no result"]


def test_a_result_without_an_id_is_found_by_the_name_of_its_call() -> None:
    calls = [Call("", "n", {}), Call("", "m", {})]
    results = [Result("", "m", "x"), Result("", "", "y")]
    assert join(HEARD, (calls, ONE), (results, ONE))[2] == []


def test_nothing_said_is_no_messages() -> None:
    assert join() == ([], [], [])
