"""The registration of many agents with contracts: their definition, and the opening of a session with them.

    python benchmarks/registration.py [--agents 1000] [--runs 5]

Each agent has a contract class of its own with five fields, one of them preset, and a tool. So no schema is
remembered from another. The target is 1 s for 1,000 agents, from the first definition to the open session.
"""

import argparse
import asyncio
import statistics
import time

import msgspec

from callboard import Agent, Runtime, ScriptedModel, tool
from callboard.runtime.log.memory import MemoryLog

TARGET_S = 1.0


@tool(effect="read")
def look(path: str) -> str:
    """Look at a file."""
    return path


def contracts(count: int) -> list[type]:
    """Return classes of five fields, which belong to the program and not to the registration."""
    fields = [
        ("tenant", str),
        ("query", str),
        ("tags", list[str]),
        ("depth", int, 3),
        ("note", str | None, None),
    ]
    return [msgspec.defstruct(f"Contract{n}", fields) for n in range(count)]


async def registered(kinds: list[type]) -> tuple[float, float]:
    """Return the seconds of the definitions, and those of the opening."""
    began = time.perf_counter()
    agents = [
        Agent(f"agent{n}", description="Finds.", tools=[look], input=kind).preset(tenant="acme")
        for n, kind in enumerate(kinds)
    ]
    host = Agent("host", agents=agents)
    defined = time.perf_counter()
    async with Runtime(MemoryLog(), model=ScriptedModel([])) as runtime, runtime.open(host) as session:
        assert session.session_id
        return defined - began, time.perf_counter() - defined


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    found = [asyncio.run(registered(contracts(chosen.agents))) for _ in range(chosen.runs)]
    define, opening = (statistics.median(part) for part in zip(*found, strict=True))
    print(f"{chosen.agents:,} agents with contracts: defined {define:.3f} s, opened {opening:.3f} s")
    print(f"together {define + opening:.3f} s; the target for 1,000 is {TARGET_S} s")


if __name__ == "__main__":
    main()
