"""Spans as OTLP in JSON, without a dependency: what `callboard export --format otlp` writes.

Ids are in hexadecimal and 64-bit integers are texts, as the OTLP specification says; protobuf's own JSON has
ids in base64, which collectors refuse.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from callboard.runtime.log.telemetry import names
from callboard.runtime.log.telemetry.attributes import Attribute, attributes_of, span_name
from callboard.runtime.log.telemetry.ids import ids_of, ids_of_link
from callboard.runtime.log.telemetry.spans import Span

_INTERNAL: Final = 1
_CLIENT: Final = 3
_OK: Final = 1
_ERROR: Final = 2
_SAMPLED: Final = 1


def otlp_document(spans: Iterable[tuple[str, Span]], version: str, content_chars: int = 0) -> Iterator[bytes]:
    """Yield one `ExportTraceServiceRequest` as JSON, in chunks.

    spans: each with the id of its session. version: of this library.
    """
    resource = {"attributes": _pairs({"service.name": names.SCOPE})}
    scope = {"name": names.SCOPE, "version": version}
    yield b'{"resourceSpans":[{"resource":' + msgspec.json.encode(resource)
    yield b',"scopeSpans":[{"scope":' + msgspec.json.encode(scope) + b',"spans":['
    for number, (session, span) in enumerate(spans):
        line = msgspec.json.encode(otlp_span(session, span, content_chars))
        yield b",\n" * bool(number) + line
    yield b'],"schemaUrl":' + msgspec.json.encode(names.SCHEMA_URL)
    yield b'}],"schemaUrl":' + msgspec.json.encode(names.SCHEMA_URL) + b"}]}\n"


def otlp_span(session: str, span: Span, content_chars: int = 0) -> dict[str, object]:
    """Return a span as the JSON object of OTLP."""
    trace, own, parent = ids_of(session, span)
    found: dict[str, object] = {
        "traceId": trace.hex(),
        "spanId": own.hex(),
        "parentSpanId": parent.hex(),
        "flags": _SAMPLED,
        "name": span_name(span),
        "kind": _CLIENT if span.operation == "chat" else _INTERNAL,
        "startTimeUnixNano": _nanoseconds(span.begun.at),
        "endTimeUnixNano": _nanoseconds(max(span.begun.at, span.end_ms)),
        "attributes": _pairs(attributes_of(session, span, content_chars)),
        "status": _status(span),
    }
    if span.links:
        found["links"] = [
            {
                "traceId": trace.hex(),
                "spanId": target.hex(),
                "flags": _SAMPLED,
                "attributes": _pairs({names.LINK: link.kind}),
            }
            for link in span.links
            for trace, target in (ids_of_link(session, link),)
        ]
    return found


def _status(span: Span) -> dict[str, object]:
    if span.status == "failed":
        return {"code": _ERROR, "message": span.error}
    return {"code": _OK} if span.status == "ok" else {}


def _nanoseconds(at_ms: int) -> str:
    return f"{at_ms}000000"


def _pairs(attributes: Mapping[str, Attribute]) -> list[dict[str, object]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Attribute) -> dict[str, object]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
