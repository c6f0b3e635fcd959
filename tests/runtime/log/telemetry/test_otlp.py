"""OTLP in JSON, decoded by the official protobufs."""

import base64
import io
import json
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.runtime.log.telemetry import names
from callboard.runtime.log.telemetry.ids import ids_of, span_id
from callboard.runtime.log.telemetry.otlp import otlp_document, otlp_span
from callboard.runtime.log.telemetry.spans import Link
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
