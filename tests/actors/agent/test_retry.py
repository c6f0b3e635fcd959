"""Retries: which failures of a model call are tried again, and after which wait."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.retry import (
    LONGEST_ASKED_MS,
    LONGEST_MS,
    backoff_ms,
    end_of,
    final_if_again,
    wait_ms,
)
from callboard.actors.protocol.client_messages import RULES
from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.value_types import ModelFailure
from tests.effort import effort
from tests.tables import table

BUSY = ModelFailure("overloaded", is_retryable=True)
UNREAD = ModelFailure("garbage", "no list", is_retryable=True, digest="d1")
MINUTE_MS = 60_000
ATTEMPTS = DEFAULTS.max_model_attempts or 1


def asking(wait: int) -> ModelFailure:
    """Return a failure whose service asks for a wait."""
    return ModelFailure("rate_limit", is_retryable=True, retry_after_ms=wait)


def test_a_failure_that_waiting_cannot_fix_is_not_tried_again() -> None:
    assert backoff_ms(ModelFailure("invalid_request"), 1, 6, "host", RULES) is None


@pytest.mark.parametrize(("attempt", "may"), [(1, True), (5, True), (6, False), (7, False)])
def test_no_attempt_follows_the_last_one(attempt: int, may: bool) -> None:
    assert (backoff_ms(BUSY, attempt, 6, "host", RULES) is not None) == may


@table("asked", [None, 0, 20, 1_500, 10_000])
def test_the_default_attempts_outlast_a_window_of_one_minute(asked: int | None) -> None:
    failure = BUSY if asked is None else asking(asked)
    waits = [wait_ms(failure, attempt, RULES) for attempt in range(1, ATTEMPTS)]
    assert sum(waits) > MINUTE_MS
    assert sum(waits) < 1.5 * MINUTE_MS
    assert all(wait >= (asked or 0) for wait in waits)


@table(("attempt", "wait"), [(1, 550), (2, 1_650), (3, 4_950), (5, 44_550), (6, 60_000), (900, 60_000)])
def test_the_wait_triples_up_to_a_minute_and_a_tenth_is_spread(attempt: int, wait: int) -> None:
    waits = {backoff_ms(BUSY, attempt, 1_000, f"host.{child}", RULES) for child in range(50)}
    assert all(found is not None and wait <= found <= wait * 1.1 for found in waits)
    assert len(waits) > 25


@table(("attempt", "wait"), [(1, 500), (2, 1_000), (3, 2_000), (6, 16_000), (7, 30_000), (900, 30_000)])
def test_a_session_of_the_first_rules_keeps_its_waits(attempt: int, wait: int) -> None:
    assert wait_ms(BUSY, attempt, 1) == wait
    assert wait_ms(asking(0), attempt, 1) == 1
    assert wait_ms(asking(10**9), attempt, 1) == LONGEST_ASKED_MS


@table(("asked", "wait"), [(20, 20), (0, 1), (-5, 1), (60_000, 60_000), (10**9, LONGEST_ASKED_MS)])
def test_a_wait_that_the_service_asks_for_is_kept_up_to_five_minutes(asked: int, wait: int) -> None:
    found = backoff_ms(asking(asked), 1, 6, "host", RULES)
    assert found is not None
    assert wait <= found <= wait * 1.1


def test_a_wait_that_is_shorter_than_the_schedule_is_kept_twice() -> None:
    assert [wait_ms(asking(20), attempt, RULES) for attempt in (1, 2, 3)] == [20, 20, 4_950]
    assert wait_ms(asking(5_000), 3, RULES) == 5_000


@settings(max_examples=effort(15, 200), deadline=None, derandomize=True)
@given(st.integers(1, 100), st.text(max_size=10), st.integers(1, RULES))
def test_every_replay_has_the_same_finite_wait(attempt: int, who: str, rules: int) -> None:
    wait = backoff_ms(BUSY, attempt, 101, who, rules)
    assert wait == backoff_ms(BUSY, attempt, 101, who, rules)
    assert wait is not None
    assert 0 < wait <= LONGEST_MS * 1.1


def test_the_same_unreadable_answer_twice_is_final() -> None:
    final = final_if_again(UNREAD, "d1", 2)
    assert not final.is_retryable
    assert "twice" in final.message


@pytest.mark.parametrize(
    ("failure", "before", "attempt"), [(UNREAD, "d1", 1), (UNREAD, "d2", 2), (UNREAD, "", 2), (BUSY, "", 2)]
)
def test_any_other_failure_follows_the_schedule(failure: ModelFailure, before: str, attempt: int) -> None:
    assert final_if_again(failure, before, attempt) is failure


def test_a_failure_for_good_has_a_kind_and_words() -> None:
    assert end_of(ModelFailure("crashed", "line 7: no")) == ("crashed", "line 7: no")
    assert end_of(ModelFailure("context_full", "long")) == ("context_full", "context_full: long")
    assert end_of(ModelFailure("other", "no")) == ("model_error", "other: no")
