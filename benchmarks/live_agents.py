"""10,000 sub-agents alive at once: 100 children of the host, each with 100 of its own.

    python benchmarks/live_agents.py FOLDER [--width 100]

Every leaf waits in its first model call until all of them are there, so they are truly alive together.
Prints one row of JSON.
"""

import argparse
import asyncio
import json
import threading
import time
from pathlib import Path

from callboard import Agent, Limits, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Reply


def peak_rss_mb() -> float:
    """Return the peak memory of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


class Crowd:
    """The scripted model: everyone delegates to `width` others, leaves wait for all leaves."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.here = 0
        self.threads = 0
        self.everybody = asyncio.Event()

    async def __call__(self, request: ModelRequest) -> Reply:
        """Answer for one agent."""
        if request.profile == "leaf":
            self.here += 1
            if self.here == self.width**2:
                self.threads = threading.active_count()
                self.everybody.set()
            await self.everybody.wait()
            return say("here")
        if request.length == 1:
            below = "branch" if request.profile == "host" else "leaf"
            tasks = [call("task", agent=below, prompt="come") for _ in range(self.width)]
            return Reply(calls=tuple(tasks))
        return say("all here")


async def run(folder: Path, width: int) -> dict[str, object]:
    count = width**2 + width
    crowd = Crowd(width)
    host = Agent("host", agents=[Agent("branch", agents=[Agent("leaf")])])
    limits = Limits(max_children=width, max_agents=count + 1, max_parallel_calls=count + 1)
    async with Runtime(folder / "log.db", model=ScriptedModel(crowd), limits=limits) as runtime:
        start = time.perf_counter()
        outcome = await runtime.run(host, "go")
        wall = time.perf_counter() - start
    assert outcome.is_ok, outcome
    return {
        "workload": "live",
        "peer": "callboard",
        "agents": count,
        "live_at_once": crowd.here,
        "wall_s": round(wall, 3),
        "events": outcome.head[0],
        "rss_mb": round(peak_rss_mb(), 1),
        "threads": crowd.threads,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", type=int, default=100)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asyncio.run(run(args.folder, args.width))))


if __name__ == "__main__":
    main()
