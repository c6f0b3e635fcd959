"""A service that cuts long conversations: the call ends before or after it, never with a cut answer."""

import pytest

from callboard.actors.protocol.usage import ZERO, Usage
from callboard.runtime.models.failures import CallFailed
from callboard.runtime.models.layered.model import TOKEN_BYTES, check_context, check_count


def test_a_request_that_fits_is_sent() -> None:
    check_context(100, 100 * TOKEN_BYTES)
    check_context(0, 10**9)


def test_a_longer_request_is_not_sent_and_costs_nothing() -> None:
    with pytest.raises(CallFailed) as caught:
        check_context(100, 100 * TOKEN_BYTES + 1)
    assert (caught.value.failure.code, caught.value.usage) == ("context_full", ZERO)


@pytest.mark.parametrize("usage", [Usage(input_tokens=100), Usage(input_tokens=40, cache_read_tokens=60)])
def test_an_answer_to_a_request_that_was_cut_is_a_failure_at_its_cost(usage: Usage) -> None:
    with pytest.raises(CallFailed) as caught:
        check_count(100, usage)
    assert (caught.value.failure.code, caught.value.usage) == ("context_full", usage)


def test_an_answer_below_the_context_is_one() -> None:
    check_count(100, Usage(input_tokens=99))
    check_count(100, None)
    check_count(0, Usage(input_tokens=10**9))
