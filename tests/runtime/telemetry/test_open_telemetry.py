"""Spans and metrics as the OpenTelemetry SDK gets them."""

import sys
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callboard import OpenTelemetry
from callboard.errors import MisuseError
from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.attributes import attributes_of
from callboard.runtime.log.telemetry.formats import SERIES_MAX
from callboard.runtime.log.telemetry.metrics import Measured
from callboard.runtime.log.telemetry.spans import Link, ids_of
from tests.runtime.telemetry.sessions import SECRET_WORDS, spans_of_host


def exported(**settings: Any) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    export = OpenTelemetry(SimpleSpanProcessor(exporter), **settings).export("1", lambda: ())
    for span in spans_of_host():
        export(("one", span))
    export.flush()
    return exporter.get_finished_spans()


def test_a_span_of_the_sdk_is_the_span_of_the_events() -> None:
    for found, span in zip(exported(), spans_of_host(), strict=True):
        trace, own, parent = ids_of("one", span)
        assert found.context is not None
        assert found.context.trace_id.to_bytes(16, "big") == trace
        assert found.context.span_id.to_bytes(8, "big") == own
        assert (found.parent.span_id.to_bytes(8, "big") if found.parent else b"") == parent
        assert dict(found.attributes or {}) == attributes_of("one", span)
        assert (found.start_time, found.end_time) == (span.begun.at * 1_000_000, span.end_ms * 1_000_000)
        assert (found.status.status_code.name == "ERROR") == (span.status == "failed")
        assert found.to_json()


def test_content_is_left_out_by_default_and_cut_otherwise() -> None:
    assert SECRET_WORDS not in repr([one.to_json() for one in exported()])
    assert SECRET_WORDS in repr([one.to_json() for one in exported(content=True)])
    assert SECRET_WORDS not in repr([one.to_json() for one in exported(content=True, content_chars=5)])


def test_links_keep_their_kind() -> None:
    exporter = InMemorySpanExporter()
    span = replace(spans_of_host()[0], links=(Link("resume", 2, 5),), status="cancelled")
    OpenTelemetry(SimpleSpanProcessor(exporter)).export("1", lambda: ())(("one", span))
    (found,) = exporter.get_finished_spans()
    assert dict(found.links[0].attributes or {}) == {names.LINK: "resume"}
    assert found.status.status_code.name == "UNSET"


def test_the_service_is_that_of_the_environment_or_callboard(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exported()[0].resource.attributes["service.name"] == "callboard"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    assert exported()[0].resource.attributes["service.name"] == "shop"
    own = Resource({"service.name": "mine"})
    assert exported(resource=own)[0].resource.attributes["service.name"] == "mine"


def test_measurements_go_into_instruments_of_the_provider() -> None:
    reader = InMemoryMetricReader()
    gauges = [Measured(metrics.SESSIONS, ("idle",), 3), Measured(metrics.DROPPED, ("spans",), 2)]
    export = OpenTelemetry(meter_provider=MeterProvider([reader])).export("1", lambda: gauges)
    for span in spans_of_host():
        export(("one", span))
    export(Measured(metrics.COMMIT_TIME, (), 0.5))
    data = reader.get_metrics_data()
    assert data is not None
    (scope,) = data.resource_metrics[0].scope_metrics
    points: dict[str, list[Any]] = {metric.name: list(metric.data.data_points) for metric in scope.metrics}
    assert points["callboard.sessions"][0].value == 3
    assert points["callboard.telemetry.dropped"][0].value == 2
    assert points["callboard.asks"][0].value == 1
    assert points["callboard.commit.duration"][0].count == 1
    (times,) = points["gen_ai.client.operation.duration"]
    assert names.ERROR_TYPE not in (times.attributes or {})
    assert times.explicit_bounds == metrics.CALL_SECONDS


def test_a_metric_has_a_limited_number_of_series() -> None:
    reader = InMemoryMetricReader()
    export = OpenTelemetry(meter_provider=MeterProvider([reader])).export("1.0", list)
    for number in range(SERIES_MAX + 50):
        export(Measured(metrics.TOOL_CALLS, (f"tool-{number}", "ok"), 1))
    export(Measured(metrics.TOOL_CALLS, ("tool-0", "ok"), 1))
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    points: list[Any] = list(metric.data.data_points)
    counts = {point.attributes["tool"]: point.value for point in points}
    assert len(counts) == SERIES_MAX + 1
    assert (counts["tool-0"], counts["_other"]) == (2, 50)


def test_a_processor_that_fails_keeps_no_other_from_its_spans() -> None:
    class Broken:
        def on_end(self, span: object) -> None:
            raise OSError("broken")

        def force_flush(self, timeout_millis: int = 0) -> bool:
            raise OSError("broken")

    exporter = InMemorySpanExporter()
    export = OpenTelemetry(Broken(), SimpleSpanProcessor(exporter)).export("1", lambda: ())
    with pytest.raises(OSError, match="broken"):
        export(("one", spans_of_host()[0]))
    with pytest.raises(OSError, match="broken"):
        export.flush()
    assert len(exporter.get_finished_spans()) == 1


def test_wrong_arguments_and_a_missing_library_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MisuseError, match="not a span processor"):
        OpenTelemetry(InMemorySpanExporter())  # type: ignore[arg-type]  # an exporter is no processor
    with pytest.raises(MisuseError, match="content_chars is a number"):
        OpenTelemetry(content_chars=0)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(MisuseError, match=r"callboard\[otel\]"):
        OpenTelemetry()
