"""One tool, four formats, and a report of the costs: offline, without a key.

    python examples/tool_output.py

A clerk looks into a stock list by a tool whose results are tables. The scripted model asks for each format,
then for the same again, which the session answers without a run of the tool. The report at the end comes from
the recording alone.
"""

import asyncio
from pathlib import Path

from callboard import Agent, Runtime, ScriptedModel, Telemetry, call, say, tool
from callboard.outputs import OutputRules, ResponseFormat, ToolOutput, metrics
from callboard.replay import Recording, tool_usage

STOCK: list[dict[str, str | int]] = [
    {"part": f"P-{number:03}", "shelf": number % 9, "left": number * 7 % 50} for number in range(200)
]
FORMATS: tuple[ResponseFormat, ...] = ("concise", "standard", "detailed", "raw")
LOG = Path("tool_output.db")


@tool(effect="read", output=OutputRules("standard", "auto", show=("rows_read",)), cache=True, version="1")
def low_stock(below: int, response_format: ResponseFormat = "standard") -> ToolOutput:
    """List the parts of which few are left.

    Args:
        below: the number that is still few.
        response_format: `detailed` or `raw` for all of them.
    """
    found = [row for row in STOCK if int(row["left"]) < below]
    return ToolOutput(
        found,
        summary=f"{len(found)} of {len(STOCK)} parts have fewer than {below} left",
        response_format=response_format,
        telemetry=Telemetry(metrics=metrics(rows_read=len(STOCK))),
    )


def clerk() -> Agent:
    """Return an agent that asks for each format, and for the last one twice."""
    asks = [call("low_stock", below=5, response_format=one) for one in (*FORMATS, FORMATS[-1])]
    return Agent("clerk", tools=[low_stock], model=ScriptedModel([*asks, say("Order them.")]))


async def main() -> None:
    """Run the clerk, and show what each call cost."""
    async with Runtime(LOG) as runtime:
        outcome = await runtime.run(clerk(), "What do we have to order?")
    with Recording.open(LOG, outcome.session_id) as recording:
        for event in recording.events:
            told = getattr(event.body, "telemetry", None)
            if told is not None:
                print(f"event {event.seq}: {told.tokens_out_estimated} tokens, {told.cache}")
        used = tool_usage(recording.events).by_tool["low_stock"]
    print(f"{used.calls} calls, {used.cache_hits} from the cache, {used.metrics['rows_read']:.0f} rows read")


if __name__ == "__main__":
    asyncio.run(main())
