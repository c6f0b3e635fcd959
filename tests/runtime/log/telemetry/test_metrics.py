"""The measurements of spans."""

from collections import Counter

import pytest
from msgspec.structs import replace

from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS, Instrument, Labels, measured
from tests.runtime.telemetry.sessions import USED, spans_of_host


def sums() -> Counter[tuple[Instrument, Labels]]:
    found: Counter[tuple[Instrument, Labels]] = Counter()
    for span in spans_of_host():
        for one in measured(span):
            assert one.instrument in INSTRUMENTS
            assert len(one.labels) == len(one.instrument.labels)
            if one.instrument.kind == "counter":
                found[one.instrument, one.labels] += one.amount  # type: ignore[assignment]  # a Counter of floats
    return found


def test_the_counters_of_a_session_are_what_happened_in_it() -> None:
    found = sums()
    assert found[metrics.ASKS, ("host", "answered")] == 1
    assert found[metrics.DELEGATIONS, ("kid", "answered")] == 1
    assert found[metrics.DELEGATIONS, ("nobody", "denied")] == 1
    assert sum(n for (one, _), n in found.items() if one is metrics.DELEGATIONS) == 5
    assert found[metrics.TOOL_CALLS, ("add", "ok")] == 1
    assert found[metrics.TOOL_CALLS, ("boom", "error")] == 1
    calls = found[metrics.ATTEMPTS, ("scripted", "")]
    assert calls == 8
    assert found[metrics.TOKENS_USED, ("scripted", "cache_read")] == calls * USED.cache_read_tokens
    assert found[metrics.TOKENS_USED, ("scripted", "output")] == calls * USED.output_tokens
    assert found[metrics.COST, ("scripted",)] == pytest.approx(calls * 0.00018)


def test_the_tokens_of_a_call_are_told_as_the_conventions_say() -> None:
    told = [one for span in spans_of_host() for one in measured(span) if one.instrument is metrics.TOKEN_USE]
    kinds = Counter(one.labels[-1] for one in told)
    assert kinds["input"] == kinds["output"] == 8
    cached = USED.cache_read_tokens + USED.cache_write_tokens
    assert {one.amount for one in told if one.labels[-1] == "input"} == {USED.input_tokens + cached}


def test_an_operation_without_an_end_is_not_counted() -> None:
    assert list(measured(replace(spans_of_host()[-1], ended=None))) == []


def test_names_for_prometheus_follow_the_rules_of_opentelemetry() -> None:
    assert metrics.ASKS.prometheus == "callboard_asks_total"
    assert metrics.ASK_TIME.prometheus == "callboard_ask_duration_seconds"
    assert metrics.LOG_SIZE.prometheus == "callboard_log_size_bytes"
    assert metrics.COST.prometheus == "callboard_cost_USD_total"
    assert len({one.prometheus for one in INSTRUMENTS}) == len(INSTRUMENTS)


def test_only_histograms_have_bounds_and_they_rise() -> None:
    for one in INSTRUMENTS:
        assert bool(one.bounds) == (one.kind == "histogram")
        assert list(one.bounds) == sorted(set(one.bounds))
