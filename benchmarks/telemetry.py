"""Measure what telemetry costs an event: `python benchmarks/telemetry.py`.

Prints microseconds of processor time for an event of a session with sub-agents and tools: for the fold that
makes spans; for metrics, OTLP and spans of the OpenTelemetry SDK, each with the fold; and for log records.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callboard import Agent, Limits, ModelRequest, OpenTelemetry, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.events import Event
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.telemetry.formats import MetricStore, otlp_span
from callboard.runtime.log.telemetry.metrics import measured
from callboard.runtime.log.telemetry.records import record_of
from callboard.runtime.log.telemetry.span_fold import SpanFold, spans_of
from callboard.runtime.models.scripted import Step

TURNS = 60
REPEATS = 5


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def policy(request: ModelRequest) -> Step:
    if request.profile == "kid":
        return call("add", a=1, b=2) if request.turn < 6 else say("3")
    return call("task", agent="kid", prompt="Add.") if request.turn < TURNS else say("Done.")


def recorded() -> list[Event]:
    log = MemoryLog()
    limits = Limits(max_iterations=TURNS, max_agents=TURNS + 1, max_children=TURNS)
    host = Agent("host", agents=[Agent("kid", description="Adds.", tools=[add])])

    async def main() -> None:
        async with Runtime(log, model=ScriptedModel(policy), limits=limits) as runtime:
            await runtime.run(host, "Begin.", session_id="one")

    asyncio.run(main())
    return list(Recording.open(MemoryReader(log), "one").events)


def best_us(events: list[Event], work: Callable[[list[Event]], object]) -> float:
    """Return the microseconds of an event in the fastest of some repeats."""
    times = []
    for _ in range(REPEATS):
        begun = time.process_time()
        work(events)
        times.append(time.process_time() - begun)
    return min(times) / len(events) * 1e6


def fold(events: list[Event]) -> None:
    spans = SpanFold()
    for event in events:
        spans.add(event)


def count(events: list[Event]) -> None:
    store = MetricStore()
    for span in spans_of(events):
        for one in measured(span):
            store.add(one)


def otlp(events: list[Event], chars: int = 0) -> None:
    for span in spans_of(events):
        msgspec.json.encode(otlp_span("one", span, chars))


def sdk(events: list[Event]) -> None:
    export = OpenTelemetry(SimpleSpanProcessor(InMemorySpanExporter())).export("", lambda: ())
    for span in spans_of(events):
        export(("one", span))


def records(events: list[Event]) -> None:
    for event in events:
        record_of(event)


def main() -> None:
    events = recorded()
    spans = len(list(spans_of(events)))
    print(f"{len(events):,} events, {spans:,} spans; microseconds an event:")
    for name, work in (
        ("fold", fold),
        ("metrics", count),
        ("OTLP", otlp),
        ("OTLP with content", lambda found: otlp(found, 4_096)),
        ("OpenTelemetry SDK", sdk),
        ("log records", records),
    ):
        print(f"{best_us(events, work):8.2f}  {name}")


if __name__ == "__main__":
    main()
