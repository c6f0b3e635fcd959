from dataclasses import dataclass
from typing import Any

import msgspec

from callboard.actors.protocol.client_messages import Cancel
from callboard.actors.protocol.events import Event
from callboard.replay.testing.determinism import StepDigests, plain, plain_event
from callboard.replay.testing.explore import Campaign, Plan
from callboard.replay.testing.program import Actor
from callboard.replay.testing.run import Bounds, perform, replay
from callboard.replay.testing.sessions.world import SessionWorld
from tests.replay.testing.network import Network
from tests.replay.testing.programs import collect, collector
from tests.session_plans import Plan as SessionPlan


def notes_of(world: Any, seed: int = 0) -> StepDigests:
    """Record the digests of one run in an order that depends on the seed."""
    notes = StepDigests()
    perform(world, [notes], lambda offered: offered[seed % len(offered)], lambda offered: offered[0])
    return notes


def test_there_is_a_note_of_the_start_and_of_each_step_with_what_changed() -> None:
    notes = notes_of(collector("x", "y").world())
    assert [dict(note.states) for note in notes.of_steps] == [{"c": ()}, {"c": ("x",)}, {"c": ("x", "y")}]
    assert len({note.digest for note in notes.of_steps}) == 3


def test_equal_runs_have_equal_notes_and_others_do_not() -> None:
    digests = [
        [note.digest for note in notes_of(collector(*"xyz").world(), seed).of_steps] for seed in (0, 0, 1)
    ]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0][0] == digests[2][0]


def test_a_session_is_noted_with_every_event_that_a_step_posts_also_after_a_crash() -> None:
    scenario = SessionPlan(1).scenario()
    crashed = []

    def watch(world: Any) -> None:
        if any(move.move.strand.startswith("fault crash") for move in world.made):
            crashed.append((world, list(notes.of_steps)))

    notes = StepDigests()
    Campaign(lambda: SessionWorld(scenario), [notes], Plan(runs=60)).run(finishes=watch)
    assert crashed
    for world, taken in crashed:
        assert len(taken) == len(world.made) + 1
        noted = {event.seq: event for note in taken for event in note.posts}
        assert [noted[event.seq] for event in world.log] == world.log


def test_it_is_noted_after_which_step_faults_were_over() -> None:
    scenario = SessionPlan(4).scenario()
    notes, found = StepDigests(), []

    def watch(world: Any) -> None:
        found.append((notes.healed_at, tuple(step.strand for step in world.trace())))

    plan = Plan(runs=40, scheduler="random", bounds=Bounds(12))
    Campaign(lambda: SessionWorld(scenario), [notes], plan).run(finishes=watch)
    longer = [(healed, strands) for healed, strands in found if len(strands) > 12]
    assert longer
    assert {healed for healed, _ in longer} == {12}


def test_a_world_without_states_is_noted_by_its_digest() -> None:
    empty: tuple[str, ...] = ()
    network = Network({"c": Actor(empty, collect)}, [])
    assert len(notes_of(network.world()).of_steps) == 1


@dataclass(frozen=True)
class Odd:
    """Values with and without a counterpart in JSON."""

    names: frozenset[str]
    places: tuple[int, ...]
    by_number: Any


def test_states_are_shown_as_json_values_and_as_text_where_that_cannot_be() -> None:
    odd = Odd(frozenset("cab"), (1, 2), {1: 0.1})
    assert plain(odd)["by_number"] == {"1": 0.1}
    assert sorted(plain(odd)["names"]) == ["a", "b", "c"]
    assert plain(Odd(frozenset("cab"), (), {}))["names"] == ["a", "b", "c"]
    assert plain(msgspec.Raw(b'{"a":1}')) == {"a": 1}
    assert plain(print) == repr(print)
    event = Event(3, 9, "client", "supervisor", 0, Cancel("why"))
    told = plain_event(event)
    assert (told["sender"], told["Cancel"]) == ("client", plain(Cancel("why")))
    assert plain(Cancel("why"))["reason"] == "why"


def test_notes_of_a_run_made_again_are_equal() -> None:
    scenario = SessionPlan(2).scenario()
    notes = StepDigests()
    world = SessionWorld(scenario)
    run = perform(world, [notes], lambda offered: offered[-1], lambda offered: offered[0])
    taken = [note.digest for note in notes.of_steps]
    again = StepDigests()
    replay(lambda: SessionWorld(scenario), run.schedule, [again])
    assert [note.digest for note in again.of_steps] == taken
