"""Names are built from what an actor did, so that they are the same in every schedule."""

from callboard.replay.testing.sessions.names import Names, title, turn_name
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.replay.testing.scenarios import RICH, TWO, rich


def test_the_same_things_have_the_same_names_in_every_order() -> None:
    names = [
        sorted(made.move.strand for made in SessionWorld(TWO).run(in_random_order(seed)).made)
        for seed in range(10)
    ]
    assert all(one == names[0] for one in names)


def test_chains_name_the_turn_the_call_the_delegation() -> None:
    strands = {made.move.strand for made in rich().made}
    assert {"model host/1", "tool host/1.2", "approval host/1.3", "schema host.1", "inbox host.2"} <= strands


def test_no_name_has_the_number_of_an_event_in_it() -> None:
    world = SessionWorld(RICH).run()
    other = SessionWorld(RICH).run(in_random_order(4))
    assert {made.move.label for made in world.made} == {made.move.label for made in other.made}


def test_titles_name_the_message_and_its_agent() -> None:
    titles = [title(event) for event in SessionWorld(TWO).run().log]
    assert "Delegate 1.0 of host" in titles
    assert "Ask r1" in titles
    assert "ModelReplied 1" in titles
    assert turn_name(3, 1) == "3"
    assert turn_name(3, 2) == "3 attempt 2"


def test_a_move_is_made_once_and_found_again() -> None:
    names, event = Names(), SessionWorld(TWO).run().log[1]
    assert names.delivery(event) is names.delivery(event)
    assert names.other("client", "client", "client") is names.other("client", "client", "client")
