"""Finished spans and metrics for the OpenTelemetry SDK, in callboard[otel]."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from callboard.actors.protocol.errors import MisuseError
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.attributes import CONTENT_CHARS_MAX, attributes_of, span_name
from callboard.runtime.log.telemetry.formats import bounded_labels
from callboard.runtime.log.telemetry.metrics import (
    INSTRUMENTS,
    READ_NOW,
    Instrument,
    Labels,
    Measured,
    measured,
)
from callboard.runtime.log.telemetry.spans import Span, ids_of, ids_of_link

if TYPE_CHECKING:  # `callboard[otel]` need not be installed
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

FLUSH_S: Final = 2.0  # seconds in which the spans that are left may be exported when a runtime closes

Gauges = Callable[[], Iterable[Measured]]
"""The values of all gauges now."""


class SpanSink(Protocol):
    """The part of `opentelemetry.sdk.trace.SpanProcessor` that is used."""

    def on_end(self, span: "ReadableSpan") -> None:
        """Take a span that has ended."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the rest."""


class OpenTelemetry:
    """Gives the spans and metrics of a runtime to the OpenTelemetry SDK.

        Runtime(telemetry=OpenTelemetry(BatchSpanProcessor(OTLPSpanExporter())))

    processors: each gets finished spans by `on_end`; there is no `on_start`, since a span is made of the log
    once it has ended. meter_provider: makes the instruments; None for no metrics. resource: of the spans; by
    default that of the environment (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`), or the service
    `callboard`.
    content: True adds prompts, answers, arguments and results, without secrets, each cut to
    `content_chars` characters.

    Processors and instruments are called on one thread of the runtime, never on the event loop. The runtime
    flushes them when it closes, for two seconds at most, and leaves their shutdown to the program.

    Raises MisuseError if the library is not installed, or for a processor without `on_end`.
    """

    def __init__(
        self,
        *processors: SpanSink,
        meter_provider: "MeterProvider | None" = None,
        resource: "Resource | None" = None,
        content: bool = False,
        content_chars: int = CONTENT_CHARS_MAX,
    ) -> None:
        default = _default_resource()
        for processor in processors:
            if not callable(getattr(processor, "on_end", None)):
                raise MisuseError(f"{processor!r:.100} is not a span processor: it has no on_end")
        if type(content_chars) is not int or content_chars < 1:
            raise MisuseError(f"content_chars is a number of characters from 1 up, not {content_chars!r:.40}")
        self._processors = processors
        self._meters = meter_provider
        self._resource = default if resource is None else resource
        self._content_chars = content_chars if content else 0

    def export(self, version: str, gauges: Gauges) -> "Export":
        """Return the export of one runtime. version: of this library."""
        instruments = {} if self._meters is None else _instruments(self._meters, version, gauges)
        return Export(self._processors, self._resource, self._content_chars, version, instruments)


class Export:
    """Builds spans and measurements and hands them over. It is called on the thread of telemetry."""

    def __init__(
        self,
        processors: tuple[SpanSink, ...],
        resource: "Resource | None",
        content_chars: int,
        version: str,
        instruments: Mapping[Instrument, Callable[[float, Mapping[str, str]], object]],
    ) -> None:
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._processors = processors
        self._resource = resource
        self._content_chars = content_chars
        self._scope = InstrumentationScope(names.SCOPE, version, names.SCHEMA_URL)
        self._instruments = instruments
        # The SDK of Python keeps every set of labels forever.
        self._series: dict[Instrument, dict[Labels, None]] = {}

    def __call__(self, item: "tuple[str, Span] | Measured") -> None:
        """Take a span with the id of its session, or a measurement. Raises what a processor raises."""
        if isinstance(item, Measured):
            self._measure(item)
            return
        session, span = item
        for one in measured(span) if self._instruments else ():
            self._measure(one)
        if self._processors:
            made = self._made(session, span)
            _each(self._processors, lambda processor: processor.on_end(made))

    def flush(self) -> None:
        """Let the processors export the spans that they hold."""
        _each(self._processors, lambda processor: processor.force_flush(int(FLUSH_S * 1_000)))

    def _measure(self, one: Measured) -> None:
        add = self._instruments.get(one.instrument)
        if add is not None:
            series = self._series.setdefault(one.instrument, {})
            labels = bounded_labels(series, one.labels)
            series[labels] = None
            pairs = zip(one.instrument.labels, labels, strict=True)
            add(one.amount, {name: value for name, value in pairs if value})

    def _made(self, session: str, span: Span) -> "ReadableSpan":
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        trace, own, parent = ids_of(session, span)
        status = Status()
        if span.status == "failed":
            status = Status(StatusCode.ERROR, span.error)
        elif span.status == "ok":
            status = Status(StatusCode.OK)
        return ReadableSpan(
            span_name(span),
            context=_context(trace, own),
            parent=_context(trace, parent) if parent else None,
            resource=self._resource,
            attributes=attributes_of(session, span, self._content_chars),
            links=[
                Link(_context(*ids_of_link(session, link)), {names.LINK: link.kind}) for link in span.links
            ],
            kind=SpanKind.CLIENT if span.operation == "chat" else SpanKind.INTERNAL,
            status=status,
            start_time=span.begun.at * 1_000_000,
            end_time=max(span.begun.at, span.end_ms) * 1_000_000,
            instrumentation_scope=self._scope,
        )


def _default_resource() -> "Resource":
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    except ImportError:
        raise MisuseError(
            "OpenTelemetry needs the library `opentelemetry-sdk`: pip install 'callboard[otel]'"
        ) from None
    found = Resource.create()
    is_unknown = str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service")
    return found.merge(Resource({SERVICE_NAME: names.SCOPE})) if is_unknown else found


def _each(processors: Iterable[SpanSink], call: Callable[[SpanSink], object]) -> None:
    """Call for each processor, and raise the first error at the end."""
    first: Exception | None = None
    for processor in processors:
        try:
            call(processor)
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def _context(trace: bytes, span: bytes) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int.from_bytes(trace, "big"), int.from_bytes(span, "big"), False, sampled)


def _instruments(
    meters: "MeterProvider", version: str, gauges: Gauges
) -> dict[Instrument, Callable[[float, Mapping[str, str]], object]]:
    """Make all instruments. Return the functions that add to those which are not observed."""
    from opentelemetry.metrics import Observation

    meter = meters.get_meter(names.SCOPE, version, names.SCHEMA_URL)
    found: dict[Instrument, Callable[[float, Mapping[str, str]], object]] = {}

    def watch(instrument: Instrument, create: Callable[..., object]) -> None:
        def observe(_: object) -> list[Observation]:
            return [
                Observation(one.amount, dict(zip(instrument.labels, one.labels, strict=True)))
                for one in gauges()
                if one.instrument is instrument
            ]

        create(instrument.name, [observe], unit=instrument.unit, description=instrument.about)

    for one in INSTRUMENTS:
        if one.kind == "gauge":
            watch(one, meter.create_observable_gauge)
        elif one in READ_NOW:  # counted where it happens, also while the thread that adds is blocked
            watch(one, meter.create_observable_counter)
        elif one.kind == "counter":
            found[one] = meter.create_counter(one.name, one.unit, one.about).add
        else:
            made = meter.create_histogram(
                one.name, one.unit, one.about, explicit_bucket_boundaries_advisory=one.bounds
            )
            found[one] = made.record
    return found
