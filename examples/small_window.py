"""A long job in a small window: the conversation becomes shorter, and the agent finds what it was asked for.

    python examples/small_window.py [PAGES]

The report has many times the text that fits into the window. The model is a script here.
"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from callboard import Agent, Compact, Limits, ModelRequest, Reply, Runtime, ScriptedModel, Usage, call, tool
from callboard.messages import Compacted, TurnRequested
from callboard.replay import Recording

WINDOW = 12_000  # tokens; a real model has more
ODD = 17  # the page with the news


@tool(effect="read")
def read_page(number: int) -> str:
    """Read one page of the report."""
    return f"Page {number}. " + "Unit 4 failed twice. " * (number == ODD) + "All units ran. " * 200


@tool(effect="read", keep=True)
def read_rules() -> str:
    """Read how the answer has to look; needed to the end."""
    return "Answer with one line for each unit that failed."


def policy(request: ModelRequest) -> Reply:
    """Stand for a model: read page after page, and answer with what the notes and the pages say."""
    said, number = str(request.messages), last_page(request) + 1
    used = Usage(input_tokens=len(said) // 4, output_tokens=100)  # as a service would count
    if "about to be replaced" in str(request.messages[-1]):
        news = "Unit 4 failed twice, on page 17." if "failed twice" in said else "Nothing so far."
        return Reply(news, usage=used)
    if request.turn == 1:
        return Reply(calls=[call("read_rules")], usage=used)
    if number <= PAGES:
        return Reply("I note what failed. " * 20, [call("read_page", number=number)], usage=used)
    return Reply("Unit 4 failed twice." if "failed twice" in said else "No unit failed.", usage=used)


def last_page(request: ModelRequest) -> int:
    """Return the number of the page that was read last; 0 for none."""
    blocks = [block for message in request.conversation[1:] for block in message["content"]]
    read = [one["input"]["number"] for one in blocks if one.get("name") == "read_page"]
    return read[-1] if read else 0


async def main(path: Path) -> None:
    """Let an agent read the whole report."""
    model = ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW)
    reader = Agent("reader", tools=[read_page, read_rules], compact=Compact(keep_turns=2))
    async with Runtime(path, model=model) as runtime:
        outcome = await runtime.run(reader, "Which units failed?", limits=Limits(max_iterations=PAGES + 2))
    print(outcome.text)
    events = Recording.open(path).events
    shorter = [event.body for event in events if isinstance(event.body, Compacted)]
    cleared = sum(body.results for body in shorter)
    summaries = sum(body.by == "summary" for body in shorter)
    print(f"{PAGES} pages, {cleared} results cleared, {summaries} summaries")
    needs = [event.body.need.tokens for event in events if isinstance(event.body, TurnRequested)]
    print(f"no request needed more than {max(needs):,} of {WINDOW:,} tokens")


if __name__ == "__main__":
    PAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "log.db"))
