"""A nightly job: it sleeps until the hour comes, works, and sleeps again. It survives restarts.

    python examples/nightly.py 3 22:30
    python examples/nightly.py 3 +0.5

The second one is for people who cannot wait: a night of half a second. Kill it while it sleeps and start it
again with the same words: it sleeps for the rest of the night, and does no night twice.
"""

import asyncio
import sys
from datetime import datetime, time, timedelta
from pathlib import Path

from callboard import ProgramContext, Runtime, ToolContext, program, tool

NIGHTS = Path("nights.txt")


@tool(effect="idempotent")
def clean_up(night: int, ctx: ToolContext) -> str:
    """Clean up."""
    done = NIGHTS.read_text().split() if NIGHTS.exists() else []
    if ctx.idempotency_key not in done:
        with NIGHTS.open("a") as nights:
            nights.write(f"{ctx.idempotency_key}\n")
    return f"night {night} is done"


def next_time(now: datetime, hour: str) -> datetime:
    """Return when the job is due: at a time of the day, or after some seconds."""
    if hour.startswith("+"):
        return now + timedelta(seconds=float(hour[1:]))
    due = datetime.combine(now.date(), time.fromisoformat(hour), now.tzinfo)
    return due if due > now else due + timedelta(days=1)


@program(tools=[clean_up])
async def nightly(ctx: ProgramContext, prompt: str) -> str:
    """Do the job for some nights. The prompt has their number and the time of the day."""
    nights, hour = prompt.split()
    for night in range(1, int(nights) + 1):
        # `ctx.now()` is the recorded time, so a run that is executed again computes the same moments.
        await ctx.sleep_until(next_time(ctx.now(), hour))
        await ctx.call(clean_up, night=night)
    return f"{nights} nights are done"


async def main(prompt: str) -> None:
    """Do the job, or go on with it."""
    async with Runtime("nightly.db") as runtime:
        session = await runtime.open(nightly, session_id="nightly", resume=True)
        print((await session.ask(prompt, request_id="job")).text)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:])))
