"""The text for Prometheus, read by the official parser."""

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS, Measured
from callboard.runtime.log.telemetry.prometheus import SERIES_MAX, MetricStore


def parsed(store: MetricStore, *gauges: Measured) -> dict[str, Metric]:
    return {one.name: one for one in text_string_to_metric_families(store.text(INSTRUMENTS, gauges))}


def test_an_empty_store_has_each_instrument_and_no_value() -> None:
    found = parsed(MetricStore())
    assert len(found) == len(INSTRUMENTS)
    assert not any(one.samples for one in found.values())
    assert {one.type for one in found.values()} == {"counter", "gauge", "histogram"}


def test_counters_add_up_by_their_labels() -> None:
    store = MetricStore()
    for model, amount in (("a", 2), ("b", 1), ("a", 5)):
        store.add(Measured(metrics.TOKENS_USED, (model, "input"), amount))
    samples = parsed(store)["callboard_tokens"].samples
    assert [(one.labels, one.value) for one in samples] == [
        ({"model": "a", "type": "input"}, 7),
        ({"model": "b", "type": "input"}, 1),
    ]


def test_a_histogram_has_cumulative_buckets_a_sum_and_a_count() -> None:
    store = MetricStore()
    for seconds in (0.001, 0.005, 0.02, 1e9):
        store.add(Measured(metrics.COMMIT_TIME, (), seconds))
    samples = parsed(store)["callboard_commit_duration_seconds"].samples
    buckets = {one.labels["le"]: one.value for one in samples if one.name.endswith("_bucket")}
    assert (buckets["0.005"], buckets["0.01"], buckets["0.025"], buckets["+Inf"]) == (2, 2, 3, 4)
    assert list(buckets.values()) == sorted(buckets.values())
    named = {one.name.rpartition("_")[2]: one.value for one in samples if "le" not in one.labels}
    assert named == {"sum": 1_000_000_000.026, "count": 4}


def test_any_name_of_a_tool_or_model_is_a_label() -> None:
    store = MetricStore()
    names = ['a"b', "a\\b", "a\nb", "ä€😀", "", "a\\", 'x"} 1\n# HELP y']
    for name in names:
        store.add(Measured(metrics.TOOL_CALLS, (name, "ok"), 1))
    samples = parsed(store)["callboard_tool_calls"].samples
    assert sorted(one.labels["tool"] for one in samples) == sorted(names)


def test_the_number_of_series_has_a_limit() -> None:
    store = MetricStore()
    for number in range(SERIES_MAX + 50):
        store.add(Measured(metrics.TOOL_CALLS, (f"t{number}", "ok"), 1))
        store.add(Measured(metrics.TOOL_TIME, (f"t{number}",), 1))
    store.add(Measured(metrics.TOOL_CALLS, ("t1", "ok"), 1))
    found = {one.labels["tool"]: one.value for one in parsed(store)["callboard_tool_calls"].samples}
    assert len(found) == SERIES_MAX + 1
    assert (found["_other"], found["t1"]) == (50, 2)


def test_gauges_are_the_values_that_are_given() -> None:
    store = MetricStore()
    now = Measured(metrics.SESSIONS, ("idle",), 3), Measured(metrics.DROPPED, ("logs",), 2)
    found = parsed(store, *now)
    assert [(one.labels, one.value) for one in found["callboard_sessions"].samples] == [
        ({"state": "idle"}, 3)
    ]
    assert [one.value for one in found["callboard_telemetry_dropped"].samples] == [2]
    assert parsed(store)["callboard_sessions"].samples == []
