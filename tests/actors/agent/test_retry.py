"""Retries: which failures of a model call are tried again, and after which wait."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard.actors.agent.retry import LONGEST_ASKED_MS, LONGEST_MS, backoff_ms, end_of
from callboard.actors.protocol.value_types import ModelFailure
from tests.effort import effort

BUSY = ModelFailure("overloaded", is_retryable=True)


def test_a_failure_that_waiting_cannot_fix_is_not_tried_again() -> None:
    assert backoff_ms(ModelFailure("invalid_request"), 1, 6, "host") is None


@pytest.mark.parametrize(("attempt", "may"), [(1, True), (5, True), (6, False), (7, False)])
def test_no_attempt_follows_the_last_one(attempt: int, may: bool) -> None:
    assert (backoff_ms(BUSY, attempt, 6, "host") is not None) == may


@pytest.mark.parametrize(
    ("attempt", "wait"), [(1, 500), (2, 1_000), (3, 2_000), (6, 16_000), (7, 30_000), (900, 30_000)]
)
def test_the_wait_doubles_up_to_half_a_minute_and_a_tenth_is_spread(attempt: int, wait: int) -> None:
    waits = {backoff_ms(BUSY, attempt, 1_000, f"host.{child}") for child in range(50)}
    assert all(found is not None and wait <= found <= wait * 1.1 for found in waits)
    assert len(waits) > 25


@pytest.mark.parametrize(
    ("asked", "wait"), [(20, 20), (0, 1), (-5, 1), (60_000, 60_000), (10**9, LONGEST_ASKED_MS)]
)
def test_a_wait_that_the_service_asks_for_is_kept_up_to_five_minutes(asked: int, wait: int) -> None:
    failure = ModelFailure("rate_limit", is_retryable=True, retry_after_ms=asked)
    found = backoff_ms(failure, 1, 6, "host")
    assert found is not None
    assert wait <= found <= wait * 1.1


@settings(max_examples=effort(15, 200), deadline=None, derandomize=True)
@given(st.integers(1, 100), st.text(max_size=10))
def test_every_replay_has_the_same_finite_wait(attempt: int, who: str) -> None:
    wait = backoff_ms(BUSY, attempt, 101, who)
    assert wait == backoff_ms(BUSY, attempt, 101, who)
    assert wait is not None
    assert 0 < wait <= LONGEST_MS * 1.1


def test_a_failure_for_good_has_a_kind_and_words() -> None:
    assert end_of(ModelFailure("crashed", "line 7: no")) == ("crashed", "line 7: no")
    assert end_of(ModelFailure("context_full", "long")) == ("context_full", "context_full: long")
    assert end_of(ModelFailure("other", "no")) == ("model_error", "other: no")
