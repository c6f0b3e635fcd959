"""The charges of a session by day, model and profile: those of its supervisor, each once."""

import pytest

from callboard.actors.protocol.client_messages import AskEnded, Forked, Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import AnyMessage, TurnRequested, TurnSettled
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.actors.protocol.usage import ZERO, Need, Usage, plus
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


CALLED = (
    ("host", "supervisor", TurnRequested(1, need=Need(40))),
    ("supervisor", "model", CallModel("host", 1)),
)
AGAIN = (("host", "supervisor", TurnRequested(2, need=Need(40))), CALLED[1])
FORKED = ("client", "supervisor", Forked("o", 5, "", Resumed(2)))
REPLIED = ("model", "host", ModelReplied(1, 1))
REUSED = ("model", "host", ModelReplied(1, 1, reused=3))
SETTLED = ("host", "supervisor", TurnSettled(Usage(output_tokens=7)))


@pytest.mark.parametrize(
    ("posts", "calls"),
    [
        ((*CALLED, FORKED, REUSED, SETTLED), 0),
        ((*CALLED, FORKED, REPLIED, SETTLED), 1),
        ((*CALLED, REPLIED, FORKED, SETTLED), 0),
        ((*CALLED, REPLIED, SETTLED, FORKED, *CALLED, REPLIED, SETTLED), 2),
        ((*CALLED, REPLIED, SETTLED, *AGAIN, FORKED, SETTLED), 2),
        ((FORKED, REPLIED, *CALLED, FORKED, SETTLED), 1),
    ],
)
def test_a_fork_pays_for_the_calls_that_it_makes(
    posts: tuple[tuple[str, str, AnyMessage], ...], calls: int
) -> None:
    log = [Event(seq, 0, sender, to, 0, body) for seq, (sender, to, body) in enumerate(posts, 1)]
    charges = UsageBooks(is_fork=True).take(log)
    assert sum(one.usage.calls for one in charges) == calls
    assert UsageBooks().take(log) != [] or calls == 0
