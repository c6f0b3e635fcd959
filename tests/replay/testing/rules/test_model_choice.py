"""The rules of fallbacks and needs: they hold of good logs, and fail on logs that break them."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.messages import Begin, TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.usage import Need
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.model_choice import Fallbacks, Needs
from callboard.replay.testing.sessions.monitors import breaches_of
from callboard.replay.testing.sessions.resumes import check_resumes
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.replay.verify import Verifier
from tests.effort import effort
from tests.mutants.campaign import without_faults
from tests.mutants.scenarios_fallback import FALLBACK, rounds, small
from tests.replay.testing.edited_logs import Log

SMALL = SessionWorld(small()).run().log
ROUNDS = SessionWorld(without_faults(rounds())).run().log


def wished(log: Log, nth: int, **changes: Any) -> Log:
    """Change the nth request for a turn."""
    places = [at for at, event in enumerate(log) if isinstance(event.body, TurnRequested)]
    at = places[nth]
    changed = replace(log[at], body=replace(log[at].body, **changes))
    return [*log[:at], changed, *log[at + 1 :]]


def replied(log: Log, nth: int, **changes: Any) -> Log:
    """Change the nth reply of a model."""
    places = [at for at, event in enumerate(log) if isinstance(event.body, ModelReplied)]
    at = places[nth]
    changed = replace(log[at], body=replace(log[at].body, **changes))
    return [*log[:at], changed, *log[at + 1 :]]


BAD = ModelFailure("invalid_request_error")

DOCTORED: dict[str, Callable[[], Log]] = {
    "the same model again": lambda: wished(SMALL, 1, model=""),
    "a wait before the next model": lambda: wished(SMALL, 1, after_ms=500),
    "the first model in the next turn": lambda: wished(SMALL, 2, model=""),
    "another model after a bad request": lambda: replied(SMALL, 0, failure=BAD),
    "another model after a call that was cut off": lambda: replied(SMALL, 0, status="lost", failure=None),
    "an ask that begins with the second model": lambda: wished(SMALL, 0, model="second"),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_a_log_that_breaks_the_rule_is_found(name: str) -> None:
    found = check_log(DOCTORED[name](), is_at_rest=True, kinds=(Fallbacks,))
    assert {breach.rule for breach in found} == {Fallbacks.rule}


def test_no_wait_after_a_whole_round_is_found() -> None:
    wishes = [event.body for event in ROUNDS if isinstance(event.body, TurnRequested)]
    nth = next(at for at, wish in enumerate(wishes) if wish.after_ms)
    found = check_log(wished(ROUNDS, nth, after_ms=0), is_at_rest=True, kinds=(Fallbacks,))
    assert {breach.rule for breach in found} == {Fallbacks.rule}


@pytest.mark.parametrize(
    "changes", [{"need": Need(1_000, 0)}, {"need": Need(0, 0)}, {"model": ""}, {"model": "none"}]
)
def test_a_need_of_another_model_is_found(changes: dict[str, Any]) -> None:
    found = check_log(wished(SMALL, 1, **changes), is_at_rest=True, kinds=(Needs,))
    assert {breach.rule for breach in found} == {Needs.rule}


def test_good_logs_break_no_rule_and_neither_does_any_prefix_of_them() -> None:
    for log in (SMALL, ROUNDS):
        assert Verifier(log).run() is None
        assert check_log(log, is_at_rest=True) == []
        assert [one for length in range(len(log)) for one in check_log(log[:length])] == []


def test_a_fallback_goes_on_from_a_crash_at_every_event() -> None:
    assert check_resumes(small(), SMALL) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FALLBACK)
def test_every_session_with_fallbacks_goes_on_from_a_crash(name: str) -> None:
    world = SessionWorld(without_faults(FALLBACK[name])).run()
    for length in range(0, len(world.log) + 1, effort(suite=3, campaign=1)):
        assert check_resumes(world.scenario, world.log[:length], start=length) == []


@pytest.mark.parametrize("name", FALLBACK)
def test_sessions_with_fallbacks_break_no_rule_in_random_orders(name: str) -> None:
    for seed in range(3):
        assert breaches_of(SessionWorld(FALLBACK[name]).run(in_random_order(seed))) == []


def test_the_sessions_ask_every_model_and_wait_after_whole_rounds() -> None:
    wishes = [event.body for event in ROUNDS if isinstance(event.body, TurnRequested)]
    assert {wish.model for wish in wishes} == {"", "second", "third"}
    assert any(wish.after_ms for wish in wishes)
    begins = [event.body for event in ROUNDS if isinstance(event.body, Begin)]
    assert all(begin.model.fallback for begin in begins)
