"""The rule of places: it holds of good logs, and fails on logs that break it."""

from collections.abc import Callable

import pytest

from callboard.actors.protocol.client_messages import AskEnded, SessionOpened
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallModel, CapacityGiven, RequestCapacity
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.model_choice import Places
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants.scripts import BUSY, DONE, LOOK, script
from tests.replay.testing.edited_logs import Log, again, edited, limited, of_kind
from tests.tables import table

PEOPLE = [profile("host", ["kid"]), profile("kid", [], ["look"])]
POLICY = script(
    host=[calls(task("kid"), task("kid", copies=2)), DONE],
    kid=[lambda request: Reply(failure=BUSY) if request.attempt == 1 else calls(LOOK), DONE],
)
LIMITED = Scenario(PEOPLE, POLICY, [ask()], Limits(max_parallel_calls=2), capacity=["scripted"])
LOG = SessionWorld(LIMITED).run().log


def swapped_places() -> Log:
    """Give the place of one agent to another."""
    return edited(LOG, of_kind(CapacityGiven), agent="host.9")


DOCTORED: dict[str, Callable[[], Log]] = {
    "a call without a place": lambda: edited(LOG, of_kind(CapacityGiven), status="cancelled"),
    "a place for another call": lambda: edited(LOG, of_kind(RequestCapacity), turn=7),
    "a place for another need": lambda: edited(LOG, of_kind(RequestCapacity), need=Need(1)),
    "a place at another model": lambda: edited(LOG, of_kind(RequestCapacity), model="other"),
    "two places for one wish": lambda: again(LOG, of_kind(RequestCapacity)),
    "a place of another agent": swapped_places,
    "a model that is not limited": lambda: edited(LOG, of_kind(SessionOpened), capacity=()),
    "a place that is not used": lambda: edited(LOG, of_kind(CallModel), agent="host.9"),
}


@table("name", DOCTORED)
def test_a_log_that_breaks_the_rule_is_found(name: str) -> None:
    found = check_log(DOCTORED[name](), is_at_rest=True, kinds=(Places,))
    assert {breach.rule for breach in found} == {Places.rule}


def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them() -> None:
    assert len([event for event in LOG if isinstance(event.body, RequestCapacity)]) == 9
    assert Verifier(LOG).run() is None
    assert check_log(LOG, is_at_rest=True) == []
    assert [one for length in range(len(LOG)) for one in check_log(LOG[:length])] == []


def test_requests_for_places_count_as_calls_in_flight() -> None:
    log = limited(LOG, of_kind(Begin), max_parallel_calls=1)
    found = check_log(log, is_at_rest=True)
    assert "wait for a place" in " ".join(
        breach.detail for breach in found if breach.name == "parallel-calls"
    )


@table("seed", range(40))
def test_every_order_and_every_fault_keeps_the_rules(seed: int) -> None:
    chosen = faults("cancel", "crash", "close", "jump", "timeout", "unstarted", "twice", seed=seed)
    limits = Limits(max_parallel_calls=2, tokens=3_000, deadline_s=100)
    asked = [ask(limits=limits), ask("more", request_id="r2")]
    scenario = Scenario(PEOPLE, POLICY, asked, limits, faults=chosen, capacity=["scripted"])
    world = SessionWorld(scenario).run(in_random_order(seed))
    assert breaches_of(world) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_every_prefix_of_a_session_with_places_resumes_to_a_good_end(seed: int) -> None:
    assert check_resumes(LIMITED, LOG, in_random_order(seed)) == []


def test_a_session_that_is_cancelled_while_it_waits_ends_and_owes_nothing() -> None:
    world = SessionWorld(Scenario(PEOPLE, POLICY, [ask()], capacity=["scripted"]))
    while not world.of(RequestCapacity):
        world.make(world.moves()[0])
    world.cancel()
    world.make(next(move for move in world.moves() if move.strand == "inbox supervisor"))
    world.run()
    assert [ended.kind for ended in world.of(AskEnded)] == ["cancelled"]
    assert [given.status for given in world.of(CapacityGiven)] == ["cancelled"]
    assert world.ended.usage.calls == 0
    assert breaches_of(world) == []
