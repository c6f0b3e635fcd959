"""Estimates of tokens."""

from itertools import pairwise

import pytest

from callboard.actors.protocol.token_estimates import BYTES_PER_100_TOKENS, Written, estimated_tokens


@pytest.mark.parametrize("written", BYTES_PER_100_TOKENS)
def test_an_estimate_grows_with_the_bytes_and_is_never_zero_for_a_text(written: Written) -> None:
    found = [estimated_tokens("x" * size, written) for size in range(50)]
    assert found[0] == 0
    assert found[1] == 1
    assert all(one <= other for one, other in pairwise(found))


def test_bytes_count_and_not_characters() -> None:
    assert estimated_tokens("你" * 112) == estimated_tokens("x" * 336) == 100
    assert estimated_tokens("\ud800") == 1, "a lone surrogate is one byte"
