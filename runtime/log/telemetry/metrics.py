"""The metrics: one table of instruments, and the measurements of each span.

    callboard.tokens     OpenTelemetry     callboard_tokens_total     Prometheus

The names for Prometheus follow from the table by OpenTelemetry's own rules: dots become underscores, the unit
is added, and a counter ends in `_total`.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.port_messages import ToolReturned
from callboard.runtime.log.telemetry import spans as names
from callboard.runtime.log.telemetry.spans import Span

InstrumentKind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[str, ...]
"""The values of an instrument's labels, in the order of its `labels`."""

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
CALL_SECONDS: Final = tuple(0.01 * 2**power for power in range(14))  # the conventions' own, up to 81.92
TOKENS: Final = tuple(float(4**power) for power in range(14))  # the conventions' own, up to 67,108,864
_SUFFIXES: Final = MappingProxyType({"s": "seconds", "By": "bytes", "USD": "USD"})
_MICRO: Final = 1_000_000


class Instrument(NamedTuple):
    """A metric. labels: the names of its labels. bounds: of the buckets of a histogram."""

    name: str
    kind: InstrumentKind
    unit: str
    about: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """Return its name for Prometheus."""
        suffix = _SUFFIXES.get(self.unit, "")
        base = self.name.replace(".", "_")
        named = f"{base}_{suffix}" if suffix and not base.endswith(suffix) else base
        return f"{named}_total" if self.kind == "counter" else named


class Measured(NamedTuple):
    """A measurement: an amount to add to a counter or a histogram."""

    instrument: Instrument
    labels: Labels
    amount: float


ASKS: Final = Instrument("callboard.asks", "counter", "{ask}", "Ended asks", ("agent", "ending"))
ASK_TIME: Final = Instrument(
    "callboard.ask.duration", "histogram", "s", "Time of asks", ("agent",), bounds=SECONDS
)
DELEGATIONS: Final = Instrument(
    "callboard.delegations",
    "counter",
    "{delegation}",
    "Delegations that ended, by agent",
    ("agent", "ending"),
)
ATTEMPTS: Final = Instrument(
    "callboard.model.attempts", "counter", "{call}", "Attempts of model calls", ("model", "error")
)
MODEL_TIME: Final = Instrument(
    "gen_ai.client.operation.duration",
    "histogram",
    "s",
    "Time of model calls",
    (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.ERROR_TYPE),
    bounds=CALL_SECONDS,
)
TOKEN_USE: Final = Instrument(
    "gen_ai.client.token.usage",
    "histogram",
    "{token}",
    "Tokens of a model call",
    (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.TOKEN_TYPE),
    bounds=TOKENS,
)
TOKENS_USED: Final = Instrument("callboard.tokens", "counter", "{token}", "Tokens charged", ("model", "type"))
COST: Final = Instrument("callboard.cost", "counter", "USD", "Cost charged, in US dollars", ("model",))
QUEUE_TIME: Final = Instrument(
    "callboard.queue.duration",
    "histogram",
    "s",
    "Time that model calls wait before they start",
    ("model",),
    bounds=SECONDS,
)
TOOL_CALLS: Final = Instrument(
    "callboard.tool.calls", "counter", "{call}", "Calls of tools", ("tool", "status")
)
TOOL_TIME: Final = Instrument(
    "callboard.tool.duration", "histogram", "s", "Time of tool calls", ("tool",), bounds=SECONDS
)
COMMIT_TIME: Final = Instrument(
    "callboard.commit.duration", "histogram", "s", "Time of commits", bounds=SECONDS
)
SESSIONS: Final = Instrument(
    "callboard.sessions", "gauge", "{session}", "Sessions in this process", ("state",)
)
OPEN_CALLS: Final = Instrument(
    "callboard.open.calls", "gauge", "{call}", "Calls without an answer", ("port",)
)
UNDURABLE: Final = Instrument("callboard.undurable.events", "gauge", "{event}", "Events not yet on disk")
LOG_SIZE: Final = Instrument("callboard.log.size", "gauge", "By", "Size of the log with its WAL")
WORKER_SESSIONS: Final = Instrument(
    "callboard.worker.sessions", "gauge", "{session}", "Sessions that the worker has claimed"
)
WORKER_SLOTS: Final = Instrument(
    "callboard.worker.slots", "gauge", "{session}", "Sessions that the worker runs at a time"
)
WORKER_LEASE: Final = Instrument(
    "callboard.worker.lease.left", "gauge", "s", "Time until others may take the worker's sessions over"
)
LOST_LEASES: Final = Instrument(
    "callboard.worker.lost.leases", "counter", "{lease}", "Leases that the worker could not renew in time"
)
DROPPED: Final = Instrument(
    "callboard.telemetry.dropped", "counter", "{item}", "Telemetry that was lost", ("signal",)
)

INSTRUMENTS: Final = (
    ASKS,
    ASK_TIME,
    DELEGATIONS,
    ATTEMPTS,
    MODEL_TIME,
    TOKEN_USE,
    TOKENS_USED,
    COST,
    QUEUE_TIME,
    TOOL_CALLS,
    TOOL_TIME,
    COMMIT_TIME,
    SESSIONS,
    OPEN_CALLS,
    UNDURABLE,
    LOG_SIZE,
    WORKER_SESSIONS,
    WORKER_SLOTS,
    WORKER_LEASE,
    LOST_LEASES,
    DROPPED,
)
"""All metrics."""

READ_NOW: Final = (LOST_LEASES, DROPPED)
"""The counters whose values are read when they are asked for, as those of gauges are."""


def measured(span: Span) -> Iterator[Measured]:
    """Yield the measurements of a span that has ended."""
    if span.ended is not None:
        yield from _OF[span.operation](span)


def _ask(span: Span) -> Iterator[Measured]:
    yield Measured(ASKS, (span.name, span.ending), 1)
    yield Measured(ASK_TIME, (span.name,), span.duration_ms / 1_000)


def _agent(span: Span) -> Iterator[Measured]:
    if span.agent != "host":
        yield Measured(DELEGATIONS, (span.name, span.ending or span.status), 1)


def _chat(span: Span) -> Iterator[Measured]:
    model, charge = span.name, span.charge
    yield Measured(ATTEMPTS, (model, span.error), 1)
    yield Measured(QUEUE_TIME, (model,), span.wait_ms / 1_000)
    told = ("chat", names.provider_name(span.model.made_by), span.model.made_by.model or model)
    yield Measured(MODEL_TIME, (*told, span.error), span.duration_ms / 1_000)
    if not charge.calls:
        return
    cached = charge.cache_read_tokens + charge.cache_write_tokens
    for kind, tokens in (("input", charge.input_tokens + cached), ("output", charge.output_tokens)):
        yield Measured(TOKEN_USE, (*told, kind), tokens)
    for kind, tokens in (
        ("input", charge.input_tokens),
        ("output", charge.output_tokens),
        ("cache_read", charge.cache_read_tokens),
        ("cache_write", charge.cache_write_tokens),
        ("reserved", charge.charged_tokens),
    ):
        if tokens:
            yield Measured(TOKENS_USED, (model, kind), tokens)
    if charge.micro_usd:
        yield Measured(COST, (model,), charge.micro_usd / _MICRO)


def _tool(span: Span) -> Iterator[Measured]:
    end = span.ended.body if span.ended is not None else None
    assert isinstance(end, ToolReturned), "an end"
    yield Measured(TOOL_CALLS, (span.name, end.status), 1)
    yield Measured(TOOL_TIME, (span.name,), span.duration_ms / 1_000)


_OF: Final[Mapping[names.Operation, Callable[[Span], Iterator[Measured]]]] = {
    "invoke_workflow": _ask,
    "invoke_agent": _agent,
    "chat": _chat,
    "execute_tool": _tool,
}
