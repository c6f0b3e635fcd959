import os
from typing import NoReturn

import pytest

from callboard.actors.protocol.errors import CallboardError
from callboard.replay.testing.program import Actor, Program
from callboard.replay.testing.replica_process import HASH_SEED, Replica, step_record
from callboard.replay.testing.schedule import Schedule
from callboard.replay.testing.schedulers.replayed import replay
from callboard.replay.testing.state_digests import StepDigests
from tests.replay.testing.programs import collector
from tests.replay.testing.test_parallel import Found


def letters() -> Found:
    return collector(*"xyz").world, []


def failing() -> NoReturn:
    raise ValueError("no luck")


def dying() -> Found:
    def world() -> NoReturn:
        os._exit(7)

    return world, []


def seeded() -> Found:
    seed = os.environ.get(HASH_SEED, "none")
    return Program({"c": Actor(seed, lambda state, sender, message: (state, ()))}).world, []


@pytest.mark.slow
def test_a_twin_has_the_hash_seed_it_is_given() -> None:
    with Replica(seeded, "77") as replica:
        replica.make(Schedule(()))
        replica.digests()
        assert replica.note(0).states == {"c": "77"}


@pytest.mark.slow
def test_a_twin_makes_runs_and_returns_their_results() -> None:
    schedule = Schedule(("s1>c", "s0>c", "s2>c"))
    notes = StepDigests()
    replay(letters()[0], schedule, [notes])
    before = os.environ.get(HASH_SEED)
    with Replica(letters, "77") as replica:
        assert os.environ.get(HASH_SEED) == before
        replica.make(schedule)
        assert replica.digests() == [note.digest for note in notes.of_steps]
        assert replica.note(2) == step_record(notes, 2)
        assert replica.note(2).states == {"c": ["y", "x"]}
        replica.make(Schedule(("s2>c", "s2>c")))  # does not fit there
        assert len(replica.digests()) == 2
        assert replica.note(9) == ({}, [])


@pytest.mark.slow
def test_a_scenario_that_fails_there_or_ends_the_process_is_told() -> None:
    for scenario, said in ((failing, "cannot be made in another process"), (dying, "ended with exit code 7")):
        with Replica(scenario, "1") as replica:
            replica.make(Schedule(()))
            with pytest.raises(CallboardError, match=said):
                replica.digests()
