"""Measure a session of 2,000 turns with results of 4 KB, in a window of 100,000 tokens.

    python benchmarks/compaction.py [TURNS]

Prints the outcome, the compactions, the largest need, the size of the log for each turn, and the CPU time of
a turn in the last quarter over that in the second one, in which compactions have begun: of the median turn,
which other programs on the machine disturb little, and of all turns.
"""

import asyncio
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median

from callboard import Agent, Compact, Limits, ModelRequest, Reply, Runtime, ScriptedModel, Usage, call, tool
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.messages import TurnRequested
from callboard.replay import Recording

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
WINDOW = 100_000


@tool(effect="read")
def read_page(number: int) -> str:
    """Read a page."""
    return f"page {number} " + "words " * 680


def main() -> None:
    """Run the session and print its figures."""
    spent: list[float] = []

    def policy(request: ModelRequest) -> Reply:
        spent.append(time.process_time())
        usage = Usage(input_tokens=sum(map(len, request.messages)) // 4 + 500, output_tokens=40)
        if b"about to be replaced" in bytes(request.message(request.length - 1)):
            return Reply("The pages so far were dull.", usage=usage)
        if len(spent) >= TURNS:
            return Reply("done", usage=usage)
        return Reply(calls=[call("read_page", number=request.turn)], usage=usage)

    async def run(path: str) -> tuple[str, str]:
        model = ScriptedModel(policy, max_tokens=4_000, context_tokens=WINDOW)
        reader = Agent("reader", tools=[read_page], compact=Compact())
        async with Runtime(path, model=model) as runtime:
            outcome = await runtime.run(reader, "Read on.", limits=Limits(max_iterations=3_000))
        return outcome.status, outcome.session_id

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.db")
        status, session = asyncio.run(run(path))
        events = Recording.open(path, session).events
        size = sum(one.stat().st_size for one in Path(folder).iterdir())
    by = Counter(one.body.by for one in events if isinstance(one.body, Compacted))
    need = max(one.body.need.tokens for one in events if isinstance(one.body, TurnRequested))
    quarter = len(spent) // 4
    turns = [after - before for before, after in pairwise(spent)]
    early, late = turns[quarter : 2 * quarter], turns[-quarter:]
    print(f"{status}, {len(spent):,} turns, compactions {dict(by)}, largest need {need:,} of {WINDOW:,}")
    print(
        f"{size / len(spent):,.0f} bytes of log for a turn; a turn at the end takes "
        f"{median(late) / median(early):.2f} times, all turns {sum(late) / sum(early):.2f} times"
    )


if __name__ == "__main__":
    main()
