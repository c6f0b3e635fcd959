"""The rules of background tasks and words fail on logs that break them, and hold of good ones."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CancelTask, DelegationEnded, Stop, TurnRequested
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.sessions.scripted_replies import calls
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants import scenarios_background as scenarios

TWO = SessionWorld(scenarios.two_tasks()).run().log
WAITED = SessionWorld(scenarios.all_of_two()).run().log
TOLD = SessionWorld(scenarios.words_anywhere()).run().log


def broken(log: list[Event]) -> set[str]:
    return {breach.name for breach in check_log(log, is_at_rest=True)}


def last_wish(log: list[Event]) -> Event:
    wishes = [one for one in log if isinstance(one.body, TurnRequested) and one.sender == "host"]
    return wishes[-1]


def with_event(log: list[Event], event: Event) -> list[Event]:
    return [event if one.seq == event.seq else one for one in log]


@pytest.mark.parametrize("log", [TWO, WAITED, TOLD])
def test_good_logs_break_no_rule(log: list[Event]) -> None:
    assert broken(log) == set()


def test_an_end_that_no_request_names_is_found() -> None:
    wish = last_wish(TWO)
    assert isinstance(wish.body, TurnRequested)
    assert "tasks-read" in broken(with_event(TWO, replace(wish, body=replace(wish.body, new=()))))


def test_an_agent_that_one_end_of_two_wakes_is_found() -> None:
    wish = last_wish(TWO)
    first = next(one for one in TWO if isinstance(one.body, DelegationEnded))
    assert "tasks-read" in broken(with_event(TWO, replace(wish, cause=first.seq)))


def test_a_wait_that_returns_at_the_wrong_end_is_found() -> None:
    wish = last_wish(WAITED)
    first = next(one for one in WAITED if isinstance(one.body, DelegationEnded))
    assert "task-waits" in broken(with_event(WAITED, replace(wish, cause=first.seq)))


def test_a_cancel_that_ends_another_task_is_found() -> None:
    log = SessionWorld(scenarios.one_of_two_cancelled()).run().log
    assert broken(log) == set()
    cancel = next(one for one in log if isinstance(one.body, CancelTask))
    end = next(one for one in log if isinstance(one.body, DelegationEnded) and one.cause == cancel.seq)
    assert isinstance(end.body, DelegationEnded)
    other = replace(end, body=replace(end.body, call=end.body.call - 1))
    assert "task-waits" in broken(with_event(log, other))


def test_a_task_that_outlives_its_agent_is_found() -> None:
    first = next(one for one in TWO if isinstance(one.body, DelegationEnded))
    log = TWO[: first.seq - 1]
    stop = replace(first, recipient="host", body=Stop("cancelled"))
    assert "tasks-end" in broken([*log, stop])


def test_words_that_end_twice_or_in_another_turn_are_found() -> None:
    end = next(one for one in TOLD if isinstance(one.body, TellEnded))
    assert isinstance(end.body, TellEnded)
    assert "one-tell-end" in broken([*TOLD, replace(end, seq=len(TOLD) + 1)])
    other = replace(end.body, status="heard", turn=end.body.turn + 7)
    assert "one-tell-end" in broken(with_event(TOLD, replace(end, body=other)))


def test_a_wait_with_an_argument_that_it_does_not_have_is_an_error_and_no_wait() -> None:
    wrong = calls(("task_wait", {"task": "host.1"}))
    world = SessionWorld(scenarios.lead(calls(scenarios.behind(), scenarios.behind()), wrong, scenarios.LAST))
    for seed in range(5):
        assert broken(SessionWorld(world.scenario).run(in_random_order(seed)).log) == set()
