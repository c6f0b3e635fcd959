"""Spans and metrics in the formats of other tools.

Spans as OTLP in JSON, without a dependency: what `callboard export --format otlp` writes.

Ids are in hexadecimal and 64-bit integers are texts, as the OTLP specification says; protobuf's own JSON has
ids in base64, which collectors refuse.

Metrics as the text that Prometheus reads, without a dependency.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final

import msgspec

from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.attributes import Attribute, attributes_of, span_name
from callboard.runtime.log.telemetry.metrics import Instrument, Labels, Measured
from callboard.runtime.log.telemetry.spans import Span, ids_of, ids_of_link

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


SERIES_MAX: Final = 1_000  # of one instrument: tools of MCP servers may have any number of names
_OTHER: Final = "_other"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class _Histogram(msgspec.Struct):
    """The counts of a histogram: one for each bound, and one above all."""

    counts: list[int]
    total: float = 0.0


class MetricStore:
    """The sums of all measurements so far.

    An instrument with 1,000 sets of labels puts further ones under `_other`.
    """

    def __init__(self) -> None:
        self._numbers: dict[Instrument, dict[Labels, float]] = {}
        self._histograms: dict[Instrument, dict[Labels, _Histogram]] = {}

    def add(self, one: Measured) -> None:
        """Add a measurement."""
        instrument, labels, amount = one
        if instrument.kind != "histogram":
            series = self._numbers.setdefault(instrument, {})
            labels = bounded_labels(series, labels)
            series[labels] = series.get(labels, 0) + amount
            return
        held = self._histograms.setdefault(instrument, {})
        labels = bounded_labels(held, labels)
        found = held.get(labels)
        if found is None:
            found = held[labels] = _Histogram([0] * (len(instrument.bounds) + 1))
        found.counts[bisect_left(instrument.bounds, amount)] += 1
        found.total += amount

    def text(self, instruments: Iterable[Instrument], gauges: Iterable[Measured]) -> str:
        """Return all series of these instruments as text. gauges: the values that are read now."""
        values: dict[Instrument, dict[Labels, float]] = {}
        for one in gauges:
            values.setdefault(one.instrument, {})[one.labels] = one.amount
        lines: list[str] = []
        for instrument in instruments:
            name = instrument.prometheus
            lines += (f"# HELP {name} {instrument.about}.", f"# TYPE {name} {instrument.kind}")
            if instrument.kind == "histogram":
                lines += _histogram_lines(instrument, self._histograms.get(instrument, {}))
            else:
                held = values.get(instrument) or self._numbers.get(instrument, {})
                lines += _number_lines(instrument, held)
        return "\n".join([*lines, ""])


def bounded_labels(series: Mapping[Labels, object], labels: Labels) -> Labels:
    """Return the labels under which an instrument counts, which has these series so far."""
    return labels if labels in series or len(series) < SERIES_MAX else (_OTHER,) * len(labels)


def _number_lines(instrument: Instrument, series: Mapping[Labels, float]) -> Iterator[str]:
    for labels, value in sorted(series.items()):
        yield f"{instrument.prometheus}{_labelled(instrument, labels)} {value:.15g}"


def _histogram_lines(instrument: Instrument, series: Mapping[Labels, _Histogram]) -> Iterator[str]:
    name = instrument.prometheus
    for labels, found in sorted(series.items(), key=lambda one: one[0]):
        bounds = [*(f"{bound:.15g}" for bound in instrument.bounds), "+Inf"]
        for bound, count in zip(bounds, accumulate(found.counts), strict=True):
            yield f"{name}_bucket{_labelled(instrument, labels, bound)} {count}"
        yield f"{name}_sum{_labelled(instrument, labels)} {found.total:.15g}"
        yield f"{name}_count{_labelled(instrument, labels)} {sum(found.counts)}"


def _labelled(instrument: Instrument, labels: Labels, bound: str = "") -> str:
    pairs = [
        f'{name.replace(".", "_")}="{value.translate(_ESCAPES)}"'
        for name, value in zip(instrument.labels, labels, strict=True)
    ]
    pairs += [f'le="{bound}"'] * bool(bound)
    return f"{{{','.join(pairs)}}}" if pairs else ""
