"""The delays of the model calls that a resume makes again."""

from hypothesis import given
from hypothesis import strategies as st

from callboard.runtime.sessions.spreading import APART_MS, AT_ONCE, WITHIN_MS, delay_ms


def test_a_few_calls_do_not_wait_and_others_begin_one_after_the_other() -> None:
    assert [delay_ms(place, AT_ONCE) for place in range(AT_ONCE)] == [0] * AT_ONCE
    count = AT_ONCE + 3
    assert [delay_ms(place, count) for place in range(AT_ONCE - 1, count)] == [0, 25, 50, 75]


@given(st.integers(1, 100_000), st.data())
def test_delays_grow_evenly_and_are_never_long(count: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, count - 1))
    delay, then = delay_ms(place, count), delay_ms(place + 1, count)
    assert 0 <= delay <= then <= delay + APART_MS
    assert delay <= WITHIN_MS
    assert delay_ms(count - 1, count) in (max(0, count - AT_ONCE) * APART_MS, WITHIN_MS)
