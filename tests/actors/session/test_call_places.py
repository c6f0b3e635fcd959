"""The names of agents and the places of calls: a program's asks keep theirs, with anything before them."""

from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.session.call_places import CallPlaces


def program_with(before: list[int]) -> CallPlaces:
    """Make the places of a program that delegates to so many copies each time, and then to two."""
    places = CallPlaces()
    places.begin("host", is_program=True)
    for turn, copies in enumerate(before, 1):
        places.reply("host", turn, [f"x{turn}"])
        places.delegate("host", turn, 0, copies)
    last = len(before) + 1
    places.reply("host", last, ["a", "b"])
    places.delegate("host", last, 1, 2)
    return places


@given(st.lists(st.integers(1, 3), max_size=4))
def test_a_program_s_ask_and_its_children_have_one_name_wherever_they_come(before: list[int]) -> None:
    places, last, first = program_with(before), len(before) + 1, sum(before) + 1
    assert places.place("host", last, 1) == ("host", "b")
    assert [places.name(f"host.{first + copy}") for copy in range(2)] == ["host/b.0", "host/b.1"]


def test_a_model_s_calls_stand_at_their_turn_and_its_children_have_their_addresses() -> None:
    places = CallPlaces()
    places.begin("host", is_program=False)
    places.delegate("host", 1, 0, 2)
    assert places.place("host", 1, 0) == ("host", 1, 0)
    assert places.name("host.2") == "host.2"


def test_what_is_below_a_program_s_child_is_named_by_it() -> None:
    places = program_with([])
    places.begin("host.1", is_program=False)
    places.delegate("host.1", 1, 0, 1)
    assert places.name("host.1.1") == "host/b.0.1"
    assert [places.is_program(one) for one in ("host", "host.1", "host.1.1")] == [True, False, False]
    assert places.place("host.1", 3, 2) == ("host/b.0", 3, 2)


def test_a_delegation_of_an_agent_that_had_ended_takes_no_ordinal() -> None:
    places = CallPlaces()
    places.begin("host", is_program=True)
    places.reply("host", 1, ["a", "b"])
    places.delegate("host", 1, 0, 2)
    places.refuse("host", 1, 0)
    places.delegate("host", 1, 1, 1)
    assert places.name("host.1") == "host/b.0"
