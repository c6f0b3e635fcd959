"""Both kinds of requests for turns, read as one."""

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING
from callboard.actors.protocol.wishes import turn_of, wish_in


def test_a_step_is_a_turn_that_needs_nothing() -> None:
    wish = turn_of(RunStep(3, 2, "d", (7, 8)))
    assert (wish.turn, wish.attempt, wish.digest, wish.new) == (3, 2, "d", (7, 8))
    assert (wish.need, wish.settled, wish.labels) == (NOTHING, None, ())


def test_a_message_holds_a_wish_if_it_asks_for_a_turn() -> None:
    wish = TurnRequested(1)
    assert wish_in(wish) is wish
    assert wish_in(RunStep(1)) == wish
    assert wish_in("turn") is None
