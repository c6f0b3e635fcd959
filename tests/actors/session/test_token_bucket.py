"""A bucket of tokens fills with time up to a minute's worth; a leased one only when it is given some."""

from callboard.actors.session.token_bucket import MINUTE_MS, LeasedTokens, TokenBucket


def test_a_bucket_is_full_at_first_and_fills_again_at_its_rate() -> None:
    bucket = TokenBucket(600, 1_000)
    bucket.take(700)
    assert bucket.tokens == -100
    bucket.refill(11_000)
    assert bucket.tokens == 0
    bucket.refill(5_000)  # the clock went back
    assert (bucket.tokens, bucket.filled_ms) == (0, 11_000)
    assert bucket.wait_ms(50 * MINUTE_MS) == 5_000
    bucket.put_back(10_000)
    assert bucket.tokens == 600


def test_a_bucket_goes_on_at_a_level_that_is_not_above_its_size() -> None:
    assert TokenBucket(600, 0, 5 * MINUTE_MS).tokens == 5
    assert TokenBucket(600, 0, 900 * MINUTE_MS).tokens == 600  # the limit became smaller


def test_leased_tokens_come_only_from_the_home() -> None:
    bucket = LeasedTokens(600, 0)
    bucket.refill(MINUTE_MS)
    assert bucket.tokens == 0
    bucket.add(700)
    assert bucket.tokens == 700
