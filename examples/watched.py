"""A shop whose agents are watched: log records, spans and metrics, without a network or a key.

    pip install 'callboard[otel]'
    python examples/watched.py

The spans go into memory here. A service gives `OpenTelemetry` a `BatchSpanProcessor` with an exporter for its
collector instead, and serves the text of `runtime.metrics()` under `/metrics`.
"""

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from callboard import Agent, Call, OpenTelemetry, Runtime, ScriptedModel, Usage, call, tool


@tool(effect="read")
def price_of(article: str) -> str:
    """Return the price of an article."""
    if article == "lamp":
        raise KeyError("the lamp of Mrs Smith")
    return "12 euros"


SCRIPT: dict[str, list[Call | str]] = {
    "host": [call("task", agent="clerk", prompt="What does a chair cost?"), "12 euros."],
    "clerk": [call("price_of", article="lamp"), call("price_of", article="chair"), "12 euros"],
}
clerk = Agent("clerk", description="Knows all prices.", tools=[price_of])
host = Agent("host", agents=[clerk])


def tree(spans: Sequence[ReadableSpan], parent: int = 0, depth: int = 0) -> Iterator[str]:
    """Yield a line for each span below a parent, in the order of their beginnings."""
    for span in sorted(spans, key=lambda one: value(one, "callboard.seq")):
        if (span.parent.span_id if span.parent else 0) == parent and span.context is not None:
            tokens = value(span, "gen_ai.usage.input_tokens")
            yield f"{'  ' * depth}{span.name}{f' ({tokens} tokens in)' if tokens else ''}"
            yield from tree(spans, span.context.span_id, depth + 1)


def value(span: ReadableSpan, name: str) -> int:
    """Return a whole number of a span's attributes; 0 for none."""
    found = (span.attributes or {}).get(name)
    return found if isinstance(found, int) else 0


async def main() -> None:
    """Ask once, and print what each kind of telemetry has seen."""
    memory = InMemorySpanExporter()
    model = ScriptedModel(SCRIPT, usage=Usage(input_tokens=200, output_tokens=10))
    telemetry = OpenTelemetry(SimpleSpanProcessor(memory))
    async with Runtime("watched.db", model=model, telemetry=telemetry, metrics=True) as runtime:
        await runtime.run(host, "What does a chair cost?", tags=["customer:7"])
        counted = runtime.metrics()
    # The runtime has handed all spans over when it is closed.
    print("\n".join(tree(memory.get_finished_spans())))
    print()
    wanted = ("callboard_tokens_total", "callboard_tool_calls_total", "callboard_asks_total")
    print("\n".join(line for line in counted.splitlines() if line.startswith(wanted)))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
    asyncio.run(main())
