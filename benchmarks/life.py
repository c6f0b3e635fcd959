"""Measure the time to detach many running sessions, and to resume many idle ones.

    python benchmarks/life.py FOLDER [--sessions 1000] [--asks 10]

Prints one row of JSON. detach_s: from `aclose(grace_s=0)` of a runtime whose sessions all wait for a model,
until the log is closed. resume_cpu_ms: processor time of this process for each idle session that is resumed.
"""

import argparse
import asyncio
import json
import time
from pathlib import Path

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.request import ModelRequest
from callboard.errors import SessionDetached
from callboard.runtime.models.scripted import Step

HOST = Agent("host", instructions="You are the host.")


async def _never(request: ModelRequest) -> Step:
    await asyncio.Event().wait()
    return say("never")


async def detach_all(log: Path, count: int) -> float:
    """Return the seconds to detach so many running sessions."""
    runtime = Runtime(log, model=ScriptedModel(_never))
    await runtime.__aenter__()
    sessions = [await runtime.open(HOST, session_id=f"busy-{number}") for number in range(count)]
    asks = [asyncio.ensure_future(session.ask("Go.")) for session in sessions]
    await asyncio.sleep(1)
    begun = time.perf_counter()
    await runtime.aclose(grace_s=0)
    took = time.perf_counter() - begun
    ended = await asyncio.gather(*asks, return_exceptions=True)
    assert all(isinstance(one, SessionDetached) for one in ended)
    return took


async def resume_all(log: Path, count: int, asks: int) -> float:
    """Return the milliseconds of processor time to resume an idle session of so many asks."""
    model = ScriptedModel(lambda request: say("Done."))
    async with Runtime(log, model=model) as runtime:
        for number in range(count):
            session = await runtime.open(HOST, session_id=f"idle-{number}")
            for _ in range(asks):
                await session.ask("Go.")
            await session.detach(grace_s=0)
    async with Runtime(log, model=model) as runtime:
        begun = time.process_time()
        for number in range(count):
            await runtime.resume(f"idle-{number}", HOST)
        took = time.process_time() - begun
    return took / count * 1_000


def main() -> None:
    """Measure both, and print a row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sessions", type=int, default=1_000)
    parser.add_argument("--asks", type=int, default=10)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    detach_s = asyncio.run(detach_all(args.folder / "busy.db", args.sessions))
    cpu_ms = asyncio.run(resume_all(args.folder / "idle.db", args.sessions, args.asks))
    print(
        json.dumps(
            {"sessions": args.sessions, "detach_s": round(detach_s, 3), "resume_cpu_ms": round(cpu_ms, 2)}
        )
    )


if __name__ == "__main__":
    main()
