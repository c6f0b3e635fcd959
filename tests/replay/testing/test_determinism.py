import itertools
import os
from contextlib import closing

import pytest

from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.replay.testing.determinism import (
    HASH_SEED,
    Nondeterminism,
    Replica,
    StepDigests,
    check_schedule,
    explore_twice,
)
from callboard.replay.testing.explore import Plan
from callboard.replay.testing.run import replay
from callboard.replay.testing.schedule import Schedule, parse
from callboard.replay.testing.sessions import memory as session_memory
from tests.replay.testing.impure import (
    PLANTED,
    PROGRAMS,
    SESSIONS,
    Parts,
    dying,
    failing,
    letters,
    program_of_float_sum,
    program_that_posts_set_order,
    seeded,
    session_whose_model_walks_a_set,
    sound_program,
    sound_session,
)

# --- the other process --------------------------------------------------------------


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
        assert replica.record(9) == (b"", {}, [])


@pytest.mark.slow
def test_a_scenario_that_fails_there_or_ends_the_process_is_told() -> None:
    for scenario, said in ((failing, "cannot be made in another process"), (dying, "ended with exit code 7")):
        with closing(Replica(scenario, "1")) as replica, pytest.raises(CallboardError, match=said):
            replica.digests(Schedule(()))


# --- programs and sessions ----------------------------------------------------------


@pytest.fixture(autouse=True)
def _real_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the real step after a scenario has planted another one."""
    monkeypatch.setitem(vars(session_memory), "step", vars(session_memory)["step"])


@pytest.mark.slow
def test_sound_programs_and_the_real_core_come_to_the_same_states_in_four_processes() -> None:
    found = explore_twice(sound_program, Plan(runs=40))
    assert (found.statistics.runs, found.counterexamples) == (40, [])
    found = explore_twice(sound_session, Plan(runs=60))
    assert (found.statistics.runs, found.counterexamples) == (60, [])
    assert found.statistics.faults


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTED)
def test_a_decider_of_a_program_that_is_not_pure_is_caught_and_named(what: str) -> None:
    with pytest.raises(Nondeterminism, match="clerk does not decide the same") as caught:
        explore_twice(PROGRAMS[what], Plan(runs=40), processes=1)
    found = caught.value
    assert found.actor == "clerk"
    assert found.label.startswith("clerk handles go from")
    assert found.field.startswith("state[1]")
    assert found.here != found.there
    steps = parse(found.schedule).strands
    clerks = [at for at, strand in enumerate(steps, 1) if strand.endswith(">clerk")]
    assert found.step == clerks[1]  # the first in which the state differs


@pytest.mark.slow
@pytest.mark.parametrize("what", PLANTED)
def test_a_decider_of_a_session_that_is_not_pure_is_caught_and_named(what: str) -> None:
    with pytest.raises(Nondeterminism) as caught:
        explore_twice(SESSIONS[what], Plan(runs=40), processes=1)
    found = caught.value
    assert found.actor in ("host", "host.1")
    assert found.label.startswith(f"{found.actor} handles ")
    assert found.field == "state.text"
    assert found.here != found.there


@pytest.mark.slow
def test_what_only_a_message_shows_is_caught_with_its_sender() -> None:
    with pytest.raises(Nondeterminism) as caught:
        explore_twice(session_whose_model_walks_a_set, Plan(runs=5), processes=1)
    assert (caught.value.actor, caught.value.label) == ("model", "model host/1 answers")
    assert caught.value.field.startswith("posted[0].ModelReplied.content[0].text")
    with pytest.raises(Nondeterminism, match="what is under way") as caught:
        explore_twice(program_that_posts_set_order, Plan(runs=5), processes=1)
    assert caught.value.actor == "clerk"


@pytest.mark.slow
def test_one_run_is_made_again_as_its_schedule_says() -> None:
    with pytest.raises(Nondeterminism) as caught:
        explore_twice(program_of_float_sum, Plan(runs=40, scenario="sums"), processes=1)
    schedule = parse(caught.value.schedule, "sums")
    check_schedule(sound_program, schedule)
    with pytest.raises(Nondeterminism, match="PYTHONHASHSEED="):
        check_schedule(program_of_float_sum, schedule)


@pytest.mark.slow
def test_a_campaign_ended_from_outside_keeps_its_findings() -> None:
    asked = itertools.count()
    found = explore_twice(sound_program, Plan(runs=40), lambda seen: next(asked) < 5, processes=1)
    assert (found.statistics.runs, found.is_exhausted) == (5, False)


def test_a_scenario_that_other_processes_cannot_find_is_refused() -> None:
    def inner() -> Parts:
        return sound_program()

    with pytest.raises(MisuseError, match="not at the top of a module"):
        explore_twice(inner, Plan())


def test_runs_are_dealt_to_all_the_processes_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    digests = Replica.digests

    def noted(replica: Replica, schedule: Schedule) -> list[bytes]:
        asked.append(replica.hash_seed)
        return digests(replica, schedule)

    monkeypatch.setattr(Replica, "digests", noted)
    explore_twice(sound_program, Plan(runs=7, keeps_going=True))
    assert len(asked) == 7
    first = asked[:3]
    assert len(set(first)) == 3
    assert asked == [*first, *first, first[0]]
    assert os.environ.get("PYTHONHASHSEED") not in first
