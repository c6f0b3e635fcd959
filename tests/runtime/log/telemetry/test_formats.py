"""OTLP in JSON, decoded by the official protobufs."""

import base64
import io
import json
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from callboard.actors.protocol.client_messages import AskEnded
from callboard.runtime.log.telemetry import metrics
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.formats import (
    SERIES_MAX,
    MetricStore,
    otlp_document,
    otlp_span,
)
from callboard.runtime.log.telemetry.metrics import INSTRUMENTS, Measured
from callboard.runtime.log.telemetry.spans import Link, ids_of, ids_of_link, span_id
from tests.runtime.telemetry.sessions import SECRET_WORDS, recording_of_host, spans_of_host

IDS = ("traceId", "spanId", "parentSpanId")


def decoded(document: bytes) -> ExportTraceServiceRequest:
    """Decode OTLP as a collector does: protobuf's own JSON has ids in base64, that of OTLP in hexadecimal."""

    def with_base64(value: Any) -> Any:
        if isinstance(value, list):
            return [with_base64(one) for one in value]
        if not isinstance(value, dict):
            return value
        return {
            key: base64.b64encode(bytes.fromhex(one)).decode() if key in IDS else with_base64(one)
            for key, one in value.items()
        }

    request = ExportTraceServiceRequest()
    Parse(json.dumps(with_base64(json.loads(document))), request)
    return request


def exported(*, has_content: bool = False) -> bytes:
    out = io.BytesIO()
    recording_of_host().export("otlp", out, has_content=has_content)
    return out.getvalue()


def test_an_export_is_read_by_the_official_protobufs() -> None:
    request = decoded(exported())
    (scopes,) = request.resource_spans
    assert scopes.resource.attributes[0].value.string_value == "callboard"
    assert scopes.schema_url == names.SCHEMA_URL
    spans = scopes.scope_spans[0].spans
    expected = spans_of_host()
    assert [(one.trace_id, one.span_id, one.parent_span_id) for one in spans] == [
        ids_of("one", one) for one in expected
    ]
    for found, span in zip(spans, expected, strict=True):
        assert found.start_time_unix_nano == span.begun.at * 1_000_000
        assert found.end_time_unix_nano == span.end_ms * 1_000_000
        assert (found.kind == found.SPAN_KIND_CLIENT) == (span.operation == "chat")
        assert (found.status.code == 2) == (span.status == "failed")


def test_the_usage_of_all_spans_is_that_of_the_outcome() -> None:
    sums: dict[str, float] = {}
    for span in decoded(exported()).resource_spans[0].scope_spans[0].spans:
        for pair in span.attributes:
            value = pair.value.double_value or pair.value.int_value
            sums[pair.key] = sums.get(pair.key, 0) + value
    (end,) = [event.body for event in recording_of_host().events if isinstance(event.body, AskEnded)]
    usage = end.usage
    assert sums[names.INPUT_TOKENS] == usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    assert sums[names.OUTPUT_TOKENS] == usage.output_tokens
    assert round(sums[names.COST_USD] * 1_000_000) == usage.micro_usd > 0


def test_content_is_there_only_if_it_is_asked_for() -> None:
    assert SECRET_WORDS.encode() not in exported()
    assert SECRET_WORDS.encode() in exported(has_content=True)
    decoded(exported(has_content=True))


def test_several_sessions_are_one_document_and_none_is_a_document_too() -> None:
    spans = spans_of_host()[:2]
    both = decoded(b"".join(otlp_document([("one", spans[0]), ("two", spans[1])], "1")))
    assert len(both.resource_spans[0].scope_spans[0].spans) == 2
    assert not decoded(b"".join(otlp_document([], ""))).resource_spans[0].scope_spans[0].spans


def test_a_link_leads_to_the_span_of_its_session() -> None:
    span = replace(spans_of_host()[0], links=(Link("fork", 2, 2, "origin"),))
    document = b"".join(otlp_document([("one", span)], "1"))
    (link,) = decoded(document).resource_spans[0].scope_spans[0].spans[0].links
    assert link.span_id == span_id("origin", 2)
    assert link.attributes[0].value.string_value == "fork"


@pytest.mark.parametrize("status", ["ok", "cancelled", "unfinished"])
def test_a_status_that_is_no_failure_is_no_error(status: Any) -> None:
    found = otlp_span("one", replace(spans_of_host()[-1], status=status))
    assert found["status"] == ({"code": 1} if status == "ok" else {})


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
    times = parsed(store)["callboard_tool_duration_seconds"].samples
    counts = {one.labels["tool"]: one.value for one in times if one.name.endswith("_count")}
    assert len(counts) == SERIES_MAX + 1
    assert (counts["_other"], counts["t1"]) == (50, 1)
    assert not any(one.name.endswith("_bucket") for one in parsed(store)["callboard_tool_calls"].samples)


def test_gauges_are_the_values_that_are_given() -> None:
    store = MetricStore()
    now = Measured(metrics.SESSIONS, ("idle",), 3), Measured(metrics.DROPPED, ("logs",), 2)
    found = parsed(store, *now)
    assert [(one.labels, one.value) for one in found["callboard_sessions"].samples] == [
        ({"state": "idle"}, 3)
    ]
    assert [one.value for one in found["callboard_telemetry_dropped"].samples] == [2]
    assert parsed(store)["callboard_sessions"].samples == []


def test_every_key_of_a_span_and_of_its_link() -> None:
    first = next(one for one in spans_of_host() if one.operation == "chat")
    span = replace(
        first, links=(Link("resume", 2, 4),), status="failed", error="busy", end_ms=first.begun.at - 1
    )
    found: Any = otlp_span("one", span)
    trace, own, parent = (one.hex() for one in ids_of("one", span))
    at = f"{span.begun.at}000000"
    link, target = (one.hex() for one in ids_of_link("one", span.links[0]))
    pairs = [{"key": "callboard.link", "value": {"stringValue": "resume"}}]
    attributes = found.pop("attributes")
    assert found == {
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent,
        "flags": 1,
        "name": f"{span.operation} {span.name}",
        "kind": 3,
        "startTimeUnixNano": at,
        "endTimeUnixNano": at,
        "status": {"code": 2, "message": "busy"},
        "links": [{"traceId": link, "spanId": target, "flags": 1, "attributes": pairs}],
    }
    assert {"key": "error.type", "value": {"stringValue": "busy"}} in attributes
    assert {otlp_span("one", one)["kind"] for one in spans_of_host() if one.operation != "chat"} == {1}
    assert otlp_span("one", span) == otlp_span("one", span, 0)  # no content, unless it is asked for


def test_attributes_of_every_type() -> None:
    root = next(one for one in spans_of_host() if one.operation == "invoke_workflow")
    left: Any = otlp_span("one", replace(root, ended=None, status="unfinished", tags=("a", "b")))
    values = {one["key"]: one["value"] for one in left["attributes"]}
    assert values["callboard.unfinished"] == {"boolValue": True}
    assert values["callboard.tags"] == {
        "arrayValue": {"values": [{"stringValue": "a"}, {"stringValue": "b"}]}
    }
    assert left["status"] == {}


def test_a_document_names_the_library_and_no_content() -> None:
    (span, *_) = spans_of_host()
    document = b"".join(otlp_document([("one", span)], "1.2.3"))
    (scopes,) = json.loads(document)["resourceSpans"][0]["scopeSpans"]
    assert scopes["scope"] == {"name": "callboard", "version": "1.2.3"}
    assert scopes["spans"] == [json.loads(json.dumps(otlp_span("one", span, 0)))]


def test_the_text_of_a_store_line_by_line() -> None:
    store = MetricStore()
    for name, amount in (("b", 0.1), ("a", 2_000.0), ("a", 0.001)):
        store.add(Measured(metrics.TOOL_TIME, (name,), amount))
    for at in range(SERIES_MAX + 2):
        store.add(Measured(metrics.TOOL_CALLS, (f"t{at}", "ok"), 2))
    lines = store.text([metrics.TOOL_TIME, metrics.TOOL_CALLS, metrics.LOG_SIZE], []).split("\n")
    assert lines[:4] == [
        "# HELP callboard_tool_duration_seconds Time of tool calls.",
        "# TYPE callboard_tool_duration_seconds histogram",
        'callboard_tool_duration_seconds_bucket{tool="a",le="0.005"} 1',
        'callboard_tool_duration_seconds_bucket{tool="a",le="0.01"} 1',
    ]
    assert 'callboard_tool_duration_seconds_sum{tool="a"} 2000.001' in lines
    assert 'callboard_tool_duration_seconds_count{tool="a"} 2' in lines
    assert 'callboard_tool_duration_seconds_bucket{tool="b",le="0.1"} 1' in lines
    assert len([one for one in lines if one.startswith("callboard_tool_calls_total{")]) == 1_000 + 1
    assert 'callboard_tool_calls_total{tool="_other",status="_other"} 4' in lines
    assert lines[-3:] == [
        "# HELP callboard_log_size_bytes Size of the log with its WAL.",
        "# TYPE callboard_log_size_bytes gauge",
        "",
    ]
