import itertools
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import reduce
from operator import add
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.errors import CallboardError, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.session.step import ActorState, Decision
from callboard.replay.testing.determinism import (
    HASH_SEED,
    Nondeterminism,
    Replica,
    StepDigests,
    check_schedule,
    explore_twice,
)
from callboard.replay.testing.explore import Plan
from callboard.replay.testing.monitors import always
from callboard.replay.testing.program import Actor, Posts, Program, Send
from callboard.replay.testing.run import replay
from callboard.replay.testing.schedule import Schedule, parse
from callboard.replay.testing.sessions import memory as session_memory
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import session_monitors
from callboard.replay.testing.sessions.replies import Reply, calls, task
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.world import Worlds
from callboard.replay.testing.world import MakeWorld, Monitor
from tests.replay.testing.programs import collector
from tests.session_plans import Plan as SessionPlan

Parts = tuple[MakeWorld[Any], Sequence[Monitor[Any]]]

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def set_order() -> object:
    return tuple(set(NAMES))


def address() -> object:
    return id(object())


def clock() -> object:
    return time.time()


def float_sum() -> object:
    """Compute sixty sums: one sum of eight numbers often comes out the same in two orders.

    Added by hand: from Python 3.12 on `sum` makes up for most of the error.
    """
    prices = [{name: 0.1 * ((37 * n + 11 * day) % 101) for n, name in enumerate(NAMES)} for day in range(60)]
    return tuple(reduce(add, [price[name] for name in set(NAMES)]) for price in prices)


PLANTED: dict[str, Callable[[], object]] = {
    "set order": set_order, "id()": address, "clock": clock, "float sum": float_sum,
}  # fmt: skip


# --- the other process --------------------------------------------------------------


def letters() -> Parts:
    return collector(*"xyz").world, []


def failing() -> NoReturn:
    raise ValueError("no luck")


def dying() -> Parts:
    def world() -> NoReturn:
        os._exit(7)

    return world, []


def seeded() -> Parts:
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
        assert replica.record(9) == (b"", {}, [])


@pytest.mark.slow
def test_a_scenario_that_fails_there_or_ends_the_process_is_told() -> None:
    for scenario, said in ((failing, "cannot be made in another process"), (dying, "ended with exit code 7")):
        with closing(Replica(scenario, "1")) as replica, pytest.raises(CallboardError, match=said):
            replica.digests(Schedule(()))


# --- programs -----------------------------------------------------------------------


def program(planted: Callable[[], object] | None, to: str = "") -> Parts:
    """Make a clerk that counts, and a gate.

    planted: makes a part of the clerk's state, or its message if `to` is given.
    """

    def step(state: tuple[int, object], sender: str, message: str) -> tuple[tuple[int, object], Posts]:
        posts = [("gate", f"{planted()}" if to and planted else "done")] if message == "go" else []
        return (state[0] + 1, planted() if planted and not to and state[0] == 1 else 0), posts

    def gate(state: int, sender: str, message: str) -> tuple[int, Posts]:
        return state + 1, ()

    starts = [Send("client", "clerk", "go"), Send("other", "clerk", "go"), Send("client", "gate", "go")]
    made = Program({"clerk": Actor((0, 0), step), "gate": Actor(0, gate)}, starts)
    return made.world, [always("The gate gets few", lambda world: world.states["gate"] < 9)]


def sound_program() -> Parts:
    return program(None)


def program_of_set_order() -> Parts:
    return program(set_order)


def program_of_address() -> Parts:
    return program(address)


def program_of_clock() -> Parts:
    return program(clock)


def program_of_float_sum() -> Parts:
    return program(float_sum)


def program_that_posts_set_order() -> Parts:
    return program(set_order, to="gate")


PROGRAMS = {
    "set order": program_of_set_order,
    "id()": program_of_address,
    "clock": program_of_clock,
    "float sum": program_of_float_sum,
}


# --- sessions -----------------------------------------------------------------------


def sound_session() -> Parts:
    scenario = SessionPlan(1).scenario()
    return Worlds(scenario), session_monitors()


def session(planted: Callable[[], object]) -> Parts:
    """Make a session whose agents' decider puts the planted value into their state in their second turn."""
    real: Callable[[ActorState, Event], Decision] = vars(session_memory)["step"]

    def step(state: ActorState, event: Event) -> Decision:
        after, posts = real(state, event)
        if isinstance(after, AgentState) and after.turn == 2 and not after.text:
            return replace(after, text=str(planted())), posts
        return after, posts

    vars(session_memory)["step"] = step
    profiles = [profile("host", ["kid"]), profile("kid", tools=["look"])]
    scenario = Scenario(profiles, delegates, [ask()], faults=faults("error"))
    return Worlds(scenario), ()


def delegates(request: Any) -> Reply:
    if request.turn > 1:
        return Reply("done")
    return calls(task("kid")) if request.profile == "host" else calls(("look", {}))


def session_of_set_order() -> Parts:
    return session(set_order)


def session_of_address() -> Parts:
    return session(address)


def session_of_clock() -> Parts:
    return session(clock)


def session_of_float_sum() -> Parts:
    return session(float_sum)


def session_whose_model_walks_a_set() -> Parts:
    scenario = Scenario([profile("host")], lambda request: Reply(" ".join(set(NAMES))), [ask()])
    return Worlds(scenario), ()


SESSIONS = {
    "set order": session_of_set_order,
    "id()": session_of_address,
    "clock": session_of_clock,
    "float sum": session_of_float_sum,
}


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
