"""CPU time of the questions of a debugger, on a session of 98,000 events and on those of w1 and w3.

    python benchmarks/questions.py FOLDER [--rounds 5] [--only NAME ...]

FOLDER keeps the logs, which the real runtime records first where they are missing. Needs CALLBOARD_BENCH
(see README.md). Each question is asked of a recording that was just opened, without the imports.

The median of several rounds stands. A shared machine is fast and slow from moment to moment, so each round is
scaled by `spin`, a fixed piece of Python whose CPU time is measured before and after it. The times are those
of a machine on which that takes 15.5 ms.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final, TypeAlias

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.search import Query
from callboard.runtime.models.scripted import Step

SPIN_MS: Final = 15.5
SPINS: Final = 3
WORKERS: Final = 12
ROUNDS: Final = 7
TURNS: Final = 190
LONG_TURNS: Final = 450  # of the first worker: about 2,700 events
WORKLOADS: Final = {"w1": ["--agents", "100", "--turns", "5"], "w3": ["--turns", "400"]}


Question: TypeAlias = Callable[[Recording], Iterator[object]]
"""Asks a recording that was just opened. Yields once for each step that is measured."""


def spin_ms() -> float:
    """Return the CPU time of the piece of Python that `workload.spin_ms` of the benchmarks measures."""
    started = time.process_time()
    total = 0
    for number in range(400_000):
        total += number & 7
    return (time.process_time() - started) * 1_000


def measured(path: Path, ask: Question, rounds: int) -> list[float]:
    """Return the CPU milliseconds of each step of a question, scaled: the median of some rounds."""
    found: list[list[float]] = []
    for _ in range(rounds):
        recording, times = Recording.open(path), []
        before = min(spin_ms() for _ in range(SPINS))
        started = time.process_time()
        for _ in ask(recording):
            times.append((time.process_time() - started) * 1_000)
            started = time.process_time()
        spin = (before + min(spin_ms() for _ in range(SPINS))) / 2
        found.append([one * SPIN_MS / spin for one in times])
    return [median(step) for step in zip(*found, strict=True)]


def search(text: str) -> Question:
    """Return the search for a text."""
    return lambda recording: iter([sum(1 for _ in recording.search(Query(text=text)))])


def steps(recording: Recording) -> Iterator[object]:
    """Step 200 events forward, 200 back, then to 100 distant ones."""
    at, last = recording.steps().at, recording.head.seq
    back = range(last * 3 // 5, last * 3 // 5 - 200, -1)
    leaps = (1 + place * 7_919 % last for place in range(100))
    yield from map(at, (*range(last * 2 // 5, last * 2 // 5 + 200), *back, *leaps))


def verify(recording: Recording) -> Iterator[object]:
    """Verify the session. Raises Diverged."""
    yield recording.verify().check()


QUESTIONS: Final[dict[str, tuple[str, Question]]] = {
    "state of a sub-agent": ("big", lambda recording: iter([recording.state(recording.head.seq, "host.1")])),
    "diagnose": ("big", lambda recording: iter([recording.diagnose()])),
    "search, in one event": ("big", search("src/449")),
    "search, in every second": ("big", search("src/")),
    "step": ("big", steps),
    "verify big": ("big", verify),
    "verify w1": ("w1", verify),
    "verify w3": ("w3", verify),
}
"""The log that a question is about, and the question."""


def measure(folder: Path, rounds: int, only: list[str]) -> None:
    """Print a line for each question."""
    for name, (log, ask) in QUESTIONS.items():
        if only and name not in only:
            continue
        path = folder / log / "log.db"
        times = sorted(measured(path, ask, rounds))
        line = f"{name:<24}{times[len(times) // 2]:>8.1f} ms"
        if len(times) > 1:
            line += f" median, {times[len(times) * 95 // 100]:.1f} ms at the 95th percentile"
        elif ask is verify:
            line += f"{Recording.open(path).head.seq / times[0] * 1_000:>10,.0f} events/s"
        print(line, flush=True)


def record(path: Path) -> None:
    """Record a session of 98,000 events: a host delegates to 84 workers, twelve at a time."""

    @tool(effect="read")
    async def look(path: str) -> str:
        """Look at a file."""
        return f"contents of {path}: " + "text " * 10

    def script(request: ModelRequest) -> Step:
        if request.profile == "worker":
            last = LONG_TURNS if request.address == "host.1" else TURNS
            return call("look", path=f"src/{request.turn}") if request.turn < last else say("looked")
        if request.turn <= ROUNDS:
            return calls(*(call("task", agent="worker", prompt=f"part {n}") for n in range(WORKERS)))
        return say("done")

    async def main() -> None:
        limits = Limits(max_iterations=10**6, max_agents=10**6, max_children=10**6)
        worker = Agent("worker", description="Works.", tools=[look])
        async with Runtime(path, model=ScriptedModel(script), limits=limits, durability="process") as runtime:
            outcome = await runtime.run(Agent("host", agents=[worker]), "Look at everything.")
        assert outcome.is_ok, outcome

    asyncio.run(main())


def main() -> None:
    """Record the sessions that are missing, then measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--only", nargs="+", default=[])
    given = options.parse_args()
    for name, size in WORKLOADS.items():
        if not (given.folder / name / "log.db").exists():
            program = str(Path(__file__).with_name("peer_callboard.py"))
            command = [sys.executable, program, name, "full", str(given.folder / name), *size]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
    big = given.folder / "big" / "log.db"
    if not big.exists():
        big.parent.mkdir(parents=True, exist_ok=True)
        record(big)
    measure(given.folder, given.rounds, given.only)


if __name__ == "__main__":
    main()
