"""The rules of budgets above a session: they hold of good logs, and fail on logs that break them."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import BudgetGiven, RequestBudget, SettleBudget
from callboard.actors.protocol.usage import Need
from callboard.replay.testing.rules.books import Reserved, SettledAbove
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.faults import faults
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.scenario import Scenario, ask, profile
from callboard.replay.testing.sessions.scripted_replies import Reply, calls, task
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.mutants.scripts import BUSY, DONE, LOOK, script
from tests.replay.testing.edited_logs import Log, again, edited, of_kind
from tests.tables import table

PEOPLE = [profile("host", ["kid"]), profile("kid", [], ["look"])]
POLICY = script(
    host=[calls(task("kid"), task("kid", copies=2)), DONE],
    kid=[lambda request: Reply(failure=BUSY) if request.attempt == 1 else calls(LOOK), DONE],
)
BOUND = Scenario(PEOPLE, POLICY, [ask()], Limits(max_parallel_calls=2), scopes=["*"])
PLACED = Scenario(PEOPLE, POLICY, [ask()], Limits(tokens=100_000), scopes=["*"], capacity=["scripted"])
REFUSED = Scenario(
    PEOPLE,
    POLICY,
    [ask()],
    scopes=["a", "b"],
    refuses=lambda asked: asked.agent == "host.2" and asked.attempt > 1,
)
LOG = SessionWorld(BOUND).run().log


DOCTORED: dict[str, tuple[Callable[[], Log], type]] = {
    "a call that was not given": (lambda: edited(LOG, of_kind(BudgetGiven), status="cancelled"), Reserved),
    "a wish for another call": (lambda: edited(LOG, of_kind(RequestBudget), turn=7), Reserved),
    "a wish for another need": (lambda: edited(LOG, of_kind(RequestBudget), need=Need(1)), Reserved),
    "a budget of another agent": (lambda: edited(LOG, of_kind(BudgetGiven), agent="host.9"), Reserved),
    "a call of another agent": (lambda: edited(LOG, of_kind(RequestBudget), agent="host.9"), Reserved),
}


@table("name", DOCTORED)
def test_a_log_that_breaks_a_rule_is_found(name: str) -> None:
    log, kind = DOCTORED[name]
    found = check_log(log(), is_at_rest=True, kinds=(kind,))
    assert {breach.rule for breach in found} == {kind.rule}  # type: ignore[attr-defined]  # as above


def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them() -> None:
    assert len([event for event in LOG if isinstance(event.body, RequestBudget)]) == 9
    assert Verifier(LOG).run() is None
    assert check_log(LOG, is_at_rest=True) == []
    assert [one for length in range(len(LOG)) for one in check_log(LOG[:length])] == []


KINDS = {"bound": BOUND, "placed": PLACED, "refused": REFUSED}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_prefix_of_a_bound_session_resumes_to_a_good_end(name: str) -> None:
    log = SessionWorld(KINDS[name]).run().log
    assert check_resumes(KINDS[name], log, in_random_order(name)) == []


@table("name", KINDS)
@table("seed", range(15))
def test_every_order_and_every_fault_keeps_the_rules(name: str, seed: int) -> None:
    chosen = faults("cancel", "crash", "detach", "close", "jump", "timeout", "unstarted", "twice", seed=seed)
    limits = Limits(max_parallel_calls=2, tokens=3_000, deadline_s=100)
    asked = [ask(limits=limits), ask("more", request_id="r2")]
    world = SessionWorld(replace(KINDS[name], asks=asked, faults=chosen)).run(in_random_order(seed))
    assert breaches_of(world) == []


def stopped() -> Log:
    """Return the log of an agent that was stopped between its budget and its place."""
    for seed in range(100):
        wild = replace(PLACED, faults=faults("cancel", most=1, seed=seed))
        log = list(SessionWorld(wild).run(in_random_order(seed)).log)
        if any(isinstance(event.body, SettleBudget) for event in log):
            return log
    raise AssertionError("no order stops an agent there")


def test_a_settlement_of_another_amount_or_of_no_call_is_found() -> None:
    log = stopped()
    assert check_log(log, is_at_rest=True) == []
    for doctored in (
        edited(log, of_kind(SettleBudget), tokens=7),
        again(log, of_kind(SettleBudget)),
    ):
        assert check_log(doctored, is_at_rest=True, kinds=(SettledAbove,))
    left_open = edited(log, of_kind(SettleBudget), agent="host.9")
    details = [breach.detail for breach in check_log(left_open, is_at_rest=True, kinds=(SettledAbove,))]
    assert "the reservation of host, turn 1, is open" in details
