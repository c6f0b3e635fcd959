"""A span by itself."""

from msgspec.structs import replace

from tests.runtime.telemetry.sessions import spans_of_host


def test_a_clock_that_goes_back_gives_no_negative_length() -> None:
    one = replace(spans_of_host()[-1], end_ms=0)
    assert one.duration_ms == 0
    assert replace(one, end_ms=one.begun.at + 7).duration_ms == 7
    assert one.seq == one.begun.seq
