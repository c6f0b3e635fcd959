"""Measure the time to resume a session of 10,000 events.

    python benchmarks/resume.py FOLDER [--shape team|alone] [--events 10000] [--rounds 5]

One process records; as soon as so many events are durable it ends on the spot, without closing anything.
Another one resumes that session: opens the log, reads it, checks every digest, makes every decision again,
asks for the missing part, and gets the outcome. Every round takes a copy of the file as the crash left it.

Shapes: `team`, a host that has 25 workers look at things, with nested helpers and write tools, again and
again; `alone`, one agent in one long conversation, with tool results of 2,000 characters.

Prints one row of JSON. resume_s: from `Runtime.resume` until the session goes on, the median of the rounds;
outcome_s: from opening the log until the outcome of the ask that was cut off is durable.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.models.scripted import Step

NAME: Final = "long"
WORKERS: Final = 25
LIMITS: Final = Limits(max_iterations=1_000_000, max_agents=1_000_000, max_children=WORKERS)


@tool(effect="read")
async def look(path: str) -> str:
    """Look into a folder."""
    return f"contents of {path}: " + "text " * 20


@tool(effect="write")
async def note(text: str) -> str:
    """Keep a note."""
    return f"kept {text}"


@tool(effect="read")
async def read_page(number: int) -> str:
    """Read a page."""
    return f"page {number}: " + "text " * 400


def agents() -> Agent:
    """Make a host, workers, and a helper for each."""
    helper = Agent("helper", description="Helps.", tools=[look])
    worker = Agent("worker", description="Works.", tools=[look, note], agents=[helper])
    return Agent("host", instructions="You are the host.", agents=[worker], tools=[note, read_page])


def team(request: ModelRequest) -> Step:
    """Answer for a team: rounds of delegations without end."""
    turn = request.turn
    if request.profile == "host":
        return calls(*(call("task", agent="worker", prompt=f"{turn}/{n}") for n in range(WORKERS)))
    if request.profile == "helper":
        return call("look", path="b") if turn == 1 else say("helped")
    if turn == 1:
        return calls(
            call("look", path="a"), call("note", text="one"), call("task", agent="helper", prompt="x")
        )
    return call("look", path=f"{turn}") if turn < 4 else say("worked")


def alone(request: ModelRequest) -> Step:
    """Answer for a lone agent: one page after the other without end."""
    return call("read_page", number=request.turn)


POLICIES: Final = {"team": team, "alone": alone}


def last_words(request: ModelRequest) -> Step:
    """Answer after the resume: every agent ends."""
    return say("enough")


async def record(path: Path, events: int, shape: str) -> None:
    """Record so many events, then end like a process that was killed."""
    async with Runtime(path, model=ScriptedModel(POLICIES[shape]), limits=LIMITS) as runtime:
        session = await runtime.open(agents(), session_id=NAME)
        asking = asyncio.ensure_future(session.ask("Go on for ever."))
        async for event in session.events():
            if event.seq >= events:
                os._exit(0)
        raise AssertionError(await asking)


async def resume(path: Path) -> tuple[float, float]:
    """Take the session up and let it end; returns the two times."""
    begun = time.perf_counter()
    async with Runtime(path, model=ScriptedModel(last_words), limits=LIMITS) as runtime:
        opened = time.perf_counter()
        session = await runtime.resume(NAME, agents())
        resumed = time.perf_counter()
        outcome = await session.outcome
        ended = time.perf_counter()
    assert outcome.text == "enough", outcome
    return resumed - opened, ended - begun


def measure(folder: Path, events: int, shape: str, rounds: int) -> dict[str, object]:
    """Record once, resume again and again."""
    command = [sys.executable, __file__, str(folder), "--events", str(events), "--shape", shape, "--record"]
    subprocess.run(command, check=True)
    times, heads = [], (0, 0)
    for number in range(rounds):
        copy = folder / f"{shape}-{number}.db"
        for end in ("", "-wal"):
            shutil.copy(folder / f"{shape}.db{end}", folder / f"{copy.name}{end}")
        left = Recording.open(copy, NAME).head.seq
        times.append(asyncio.run(resume(copy)))
        whole = Recording.open(copy, NAME)
        whole.verify().check()
        heads = left, whole.head.seq
    return {
        "workload": "resume",
        "shape": shape,
        "events": heads[0],
        "events_after": heads[1],
        "resume_s": round(statistics.median(one for one, _ in times), 3),
        "resume_max_s": round(max(one for one, _ in times), 3),
        "outcome_s": round(statistics.median(one for _, one in times), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=POLICIES, default="team")
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="only record, in FOLDER/SHAPE.db")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.record:
        asyncio.run(record(args.folder / f"{args.shape}.db", args.events, args.shape))
    else:
        print(json.dumps(measure(args.folder, args.events, args.shape, args.rounds)))


if __name__ == "__main__":
    main()
