import os
from contextlib import closing
from typing import NoReturn

import pytest

from callboard.actors.protocol.errors import CallboardError
from callboard.replay.testing.program import Actor, Program
from callboard.replay.testing.replica_process import HASH_SEED, Replica
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
    with closing(Replica(seeded, "77")) as replica:
        replica.digests(Schedule(()))
        assert replica.record(0).states == {"c": "77"}


@pytest.mark.slow
def test_a_twin_makes_runs_and_returns_their_results() -> None:
    schedule = Schedule(("s1>c", "s0>c", "s2>c"))
    notes = StepDigests()
    replay(letters()[0], schedule, [notes])
    before = os.environ.get(HASH_SEED)
    with closing(Replica(letters, "77")) as replica:
        assert os.environ.get(HASH_SEED) == before
        assert replica.digests(schedule) == [note.digest for note in notes.of_steps]
        assert replica.record(2) == notes.record(2)
        assert replica.record(2).states == {"c": ["y", "x"]}
        assert len(replica.digests(Schedule(("s2>c", "s2>c")))) == 2  # the second does not fit there
        assert replica.record(9) == ({}, [])


@pytest.mark.slow
def test_a_scenario_that_fails_there_or_ends_the_process_is_told() -> None:
    for scenario, said in ((failing, "cannot be made in another process"), (dying, "ended with exit code 7")):
        with closing(Replica(scenario, "1")) as replica, pytest.raises(CallboardError, match=said):
            replica.digests(Schedule(()))
