"""The export of spans and metrics, and the names of all metrics."""

from callboard.lazy_names import lazy_names

_HOMES = {
    "runtime.log.telemetry.metrics": ("INSTRUMENTS", "Instrument"),
    "runtime.log.telemetry.records": ("LOGGERS",),
    "runtime.telemetry.open_telemetry": ("OpenTelemetry",),
}

__all__, __getattr__, __dir__ = lazy_names(__name__, _HOMES)
