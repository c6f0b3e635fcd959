"""All kinds of requests for turns, read as one."""

from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import NOTHING, Need
from callboard.actors.protocol.value_types import FirstTurn
from callboard.actors.protocol.wishes import first_turn, turn_of, wish_in


def test_a_step_is_a_turn_that_needs_nothing() -> None:
    wish = turn_of(RunStep(3, 2, "d", (7, 8)))
    assert (wish.turn, wish.attempt, wish.digest, wish.new) == (3, 2, "d", (7, 8))
    assert (wish.need, wish.settled, wish.labels) == (NOTHING, None, ())


def test_a_message_holds_a_wish_if_it_asks_for_a_turn() -> None:
    wish = TurnRequested(1)
    assert wish_in(wish) is wish
    assert wish_in(RunStep(1)) == wish
    assert wish_in("turn") is None


def test_a_call_is_a_wish_if_the_begin_of_its_agent_has_granted_it() -> None:
    call = CallModel("host.1", 7, FirstTurn(Need(30), "d"))
    assert first_turn(call) == wish_in(call) == TurnRequested(1, need=Need(30), digest="d", new=(7,))
    assert wish_in(CallModel("host.1", 7)) is None
