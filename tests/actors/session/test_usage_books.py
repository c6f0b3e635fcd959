"""The charges of a session by day, model and profile: those of its supervisor, each once."""

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.usage import ZERO, plus
from callboard.actors.session.usage_books import UsageBooks
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.runtime.log.spending import summed
from tests.mutants.scripts import BUSY, DONE, LOOK, script

PEOPLE = [profile("host", ["kid"]), profile("kid", [], ["look"])]
POLICY = script(
    host=[calls(task("kid"), task("kid", copies=2)), DONE],
    kid=[lambda request: Reply(failure=BUSY) if request.attempt == 1 else calls(LOOK), DONE],
)


def test_each_call_is_charged_to_its_profile_model_and_day() -> None:
    world = SessionWorld(Scenario(PEOPLE, POLICY, [ask()])).run()
    charges = UsageBooks().take(world.log)
    assert {(one.day, one.model, one.profile) for one in charges} == {
        ("2026-01-01", "scripted", "host"),
        ("2026-01-01", "scripted", "kid"),
    }
    assert sum(one.usage.calls for one in charges) == world.ended.usage.calls


@pytest.mark.parametrize("seed", range(20))
def test_the_sum_of_the_charges_is_what_the_session_has_spent(seed: int) -> None:
    chosen = faults("cancel", "crash", "detach", "timeout", "unmetered", "overloaded", most=3, seed=seed)
    limits = Limits(max_parallel_calls=2, deadline_s=100)
    world = SessionWorld(Scenario(PEOPLE, POLICY, [ask(limits=limits)], faults=chosen))
    world.run(in_random_order(seed))
    total = ZERO
    for charge in UsageBooks().take(world.log):
        total = plus(total, charge.usage)
    host = world.supervisor.host
    if world.of(AskEnded) and host is not None and world.supervisor.in_flight == 0:
        assert total == host.spent


def test_events_in_two_parts_give_the_charges_of_the_whole() -> None:
    log = SessionWorld(Scenario(PEOPLE, POLICY, [ask()])).run().log
    whole = UsageBooks().take(log)
    for cut in range(len(log)):
        books = UsageBooks()
        parts = summed(books.take(log[:cut]) + books.take(log[cut:]))
        assert parts == summed(whole)
