"""The levels of repair, as the log has them."""

from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.repair_levels import LEVEL_MAX, START, VERSION, Repair


def test_the_levels_follow_each_other_in_the_version_of_now_up_to_the_last() -> None:
    assert START.next == Repair(1, VERSION)
    assert Repair(1, 7).next == Repair(2, VERSION)
    assert Repair(LEVEL_MAX, VERSION).next is None


def test_a_request_states_level_and_version_and_none_at_the_start() -> None:
    raised = TurnRequested(1, repair=Repair(1, 1))
    assert b'"repair":{"level":1,"version":1}' in encode(raised)
    assert decode(encode(raised)) == raised
    assert b"repair" not in encode(TurnRequested(1))


def test_each_level_and_version_has_a_mark_of_its_own() -> None:
    assert len({bytes(Repair(level, version).mark) for level in (0, 1, 2) for version in (1, 2)}) == 6
