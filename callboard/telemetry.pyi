# Written by `python -m tools.public_names` from the table beside it; do not edit.

from callboard.runtime.log.telemetry.metrics import INSTRUMENTS as INSTRUMENTS
from callboard.runtime.log.telemetry.metrics import Instrument as Instrument
from callboard.runtime.log.telemetry.records import LOGGERS as LOGGERS
from callboard.runtime.telemetry.open_telemetry import OpenTelemetry as OpenTelemetry

__all__ = [
    "INSTRUMENTS",
    "LOGGERS",
    "Instrument",
    "OpenTelemetry",
]
