"""Measure programs: a parked step beside a scripted model's turn, re-execution, memory, and a stop.

    python benchmarks/programs.py [--rounds 8] [--parts step again memory stop]

Prints one row of JSON a part. Times are processor time, the least of the rounds, which alternate; so they
hold on a busy machine. The stop alone is measured by the wall.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from callboard import (
    Agent,
    Call,
    Limits,
    ModelRequest,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    program,
    say,
    tool,
)
from callboard.actors.agent.state import AgentState
from callboard.log import MemoryLog
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.programs.checking import check_run

STEPS = (30, 300, 3_000)
AGAIN_STEPS = 1_000
PARKED = 3_000
GATHERED = 100

Row = dict[str, object]


@tool(effect="read")
async def double(n: int) -> int:
    """Return twice the number."""
    return 2 * n


@program(tools=[double])
async def stepping(ctx: ProgramContext, prompt: str) -> str:
    """Call a tool, one call after the other."""
    for n in range(int(prompt)):
        await ctx.call(double, n=n)
    return "done"


def script(steps: int) -> ScriptedModel:
    """Make a model that calls the tool as often as the program does."""

    def reply(request: ModelRequest) -> Call | Reply:
        return call("double", n=request.turn - 1) if request.turn <= steps else say("done")

    return ScriptedModel(reply)


def cpu_us(work: Coroutine[Any, Any, object]) -> float:
    """Return the microseconds of processor time that this process takes for the work."""
    gc.collect()
    began = time.process_time()
    asyncio.run(work)
    return (time.process_time() - began) * 1e6


async def sessions(host: Agent, steps: int, model: ScriptedModel | None, count: int) -> None:
    """Run some sessions, one after the other."""
    limits = Limits(max_iterations=steps + 1)
    async with Runtime(MemoryLog(), model=model, limits=limits) as runtime:
        for _ in range(count):
            outcome = await runtime.run(host, str(steps))
            assert outcome.is_ok, outcome


def step_costs(rounds: int) -> Row:
    """Measure a step of a parked program and a turn of a scripted model, of the same calls."""
    row: Row = {"part": "step", "rounds": rounds}
    agent = Agent("host", tools=[double])
    least = {}
    for steps in STEPS:
        count = max(1, 600 // steps)
        parked, turns = [], []
        for _ in range(rounds):
            turns.append(cpu_us(sessions(agent, steps, script(steps), count)) / count / steps)
            parked.append(cpu_us(sessions(stepping, steps, None, count)) / count / steps)
        least[steps] = min(parked)
        row[f"us_a_step_{steps}"] = round(min(parked), 1)
        row[f"us_a_turn_{steps}"] = round(min(turns), 1)
        row[f"to_turn_{steps}"] = round(min(parked) / min(turns), 3)
    row["last_to_first"] = round(least[STEPS[-1]] / least[STEPS[0]], 3)
    return row


def again_costs(rounds: int) -> Row:
    """Measure the re-execution of a recorded run, with the reading of its conversation."""
    log = MemoryLog()
    outcome = Runtime(log).run_sync(stepping, str(AGAIN_STEPS))
    recording = Recording.open(MemoryReader(log), outcome.session_id)
    state = recording.states(recording.head.seq)["host"]
    assert isinstance(state, AgentState)
    said = tuple(state.history.values())
    took = []
    for _ in range(rounds):
        gc.collect()
        began = time.process_time()
        found = check_run(stepping, "stepping", "host", said)
        took.append((time.process_time() - began) * 1e6)
        assert found.result == "ok", found
        assert found.steps == AGAIN_STEPS + 1
    return {"part": "again", "steps": AGAIN_STEPS, "us_a_step": round(min(took) / AGAIN_STEPS, 1)}


def rss_kb() -> float:
    """Return the memory of this process, in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4.0


async def holding(kind: str, count: int) -> float:
    """Return the memory, in KiB, that so many agents take that hold a tool. kind: `program` or `agent`."""
    held, everyone = 0, asyncio.Event()

    @tool(effect="read")
    async def hold() -> str:
        """Wait forever."""
        nonlocal held
        held += 1
        if held == count:
            everyone.set()
        await asyncio.Event().wait()
        return ""

    @program(description="Holds.", tools=[hold])
    async def parked(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.call(hold)

    def reply(request: ModelRequest) -> Call | Reply:
        if request.profile == "host":
            return Reply(calls=tuple(call("task", prompt="go") for _ in range(count)))
        return call("hold")

    below = parked if kind == "program" else Agent("parked", description="Holds.", tools=[hold])
    host = Agent("host", agents=[below])
    limits = Limits(
        max_children=count, max_agents=count + 1, max_parallel_calls=count + 1, max_tool_calls=count
    )
    async with Runtime(MemoryLog(), model=ScriptedModel(reply), limits=limits) as runtime:
        session = await runtime.open(host)
        gc.collect()
        before = rss_kb()
        await session.submit("go")
        await everyone.wait()
        gc.collect()
        return rss_kb() - before


def memory_costs(rounds: int) -> Row:
    """Measure the memory of parked programs, and of agents that hold a tool, each in a process of its own."""
    least = {}
    for kind in ("agent", "program"):
        command = [sys.executable, __file__, "--hold", kind]
        least[kind] = min(float(subprocess.check_output(command)) for _ in range(min(rounds, 3)))
    more = (least["program"] - least["agent"]) / PARKED
    return {
        "part": "memory",
        "agents": PARKED,
        "kib_an_agent": round(least["agent"] / PARKED, 2),
        "kib_a_program": round(least["program"] / PARKED, 2),
        "kib_more": round(more, 2),
    }


async def stopped() -> tuple[float, float]:
    """Return the milliseconds from a cancel to the program's `finally`, and to the ask's end."""
    began = ended = 0.0
    here, everyone = 0, asyncio.Event()

    @tool(effect="read")
    async def hold(n: int) -> str:
        """Wait forever."""
        nonlocal here
        here += 1
        if here == GATHERED:
            everyone.set()
        await asyncio.Event().wait()
        return ""

    @program(tools=[hold])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        nonlocal ended
        try:
            await asyncio.gather(*(ctx.call(hold, n=n) for n in range(GATHERED)))
        finally:
            ended = time.perf_counter()
        return ""

    limits = Limits(max_parallel_tools=GATHERED)
    async with Runtime(MemoryLog(), limits=limits) as runtime, runtime.open(host) as session:
        await session.submit("go")
        await everyone.wait()
        began = time.perf_counter()
        outcome = await session.cancel()
        rest = time.perf_counter()
        assert outcome is not None
        assert outcome.kind == "cancelled", outcome
        assert host.model.parked == 0
    return (ended - began) * 1_000, (rest - began) * 1_000


def stop_costs(rounds: int) -> Row:
    """Measure a cancel in the middle of a gather."""
    both = [asyncio.run(stopped()) for _ in range(rounds)]
    return {
        "part": "stop",
        "gathered": GATHERED,
        "finally_ms": [round(one, 1) for one in sorted(first for first, _ in both)],
        "outcome_ms": [round(one, 1) for one in sorted(last for _, last in both)],
    }


PARTS: dict[str, Callable[[int], Row]] = {
    "step": step_costs,
    "again": again_costs,
    "memory": memory_costs,
    "stop": stop_costs,
}


def main() -> None:
    """Measure the parts, and print a row for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--hold", choices=["agent", "program"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.hold:
        print(asyncio.run(holding(args.hold, PARKED)))
        return
    for part in args.parts:
        print(json.dumps(PARTS[part](args.rounds)), flush=True)


if __name__ == "__main__":
    main()
