"""CPU seconds and peak memory of the commands that read a long session.

    python benchmarks/reading.py FILE [--events 700000] [--rounds 3]

FILE is recorded first if it does not exist (about a minute for 700,000 events): a host delegates round after
round to twelve workers, each of which calls a tool in every turn. The real runtime records it.

Every measurement is a process of its own, so imports count. Of several rounds the lowest CPU time stands.
"""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple

WORKERS: Final = 12
TURNS: Final = 100
EVENTS_OF_A_TURN: Final = 6

_OPEN: Final = """
import sys, time
from callboard.replay.recording import Recording
started = time.process_time()
Recording.open(sys.argv[1])
print(f"{1_000 * (time.process_time() - started):.1f} ms without the imports", file=sys.stderr)
"""

MEASURED: Final[dict[str, list[str]]] = {
    "open": ["-c", _OPEN, "FILE"],
    "tree": ["-m", "callboard", "tree", "--json", "--log", "FILE"],
    "verify": ["-m", "callboard", "verify", "--log", "FILE"],
    "show --state --at 20": ["-m", "callboard", "show", "--state", "--at", "20", "--log", "FILE"],
    "show --state --at 20 --actor host": [
        "-m",
        "callboard",
        "show",
        "--state",
        "--at",
        "20",
        "--actor",
        "host",
        "--log",
        "FILE",
    ],
    "events --step --from 10": [
        "-m",
        "callboard",
        "events",
        "--step",
        "--from",
        "10",
        "--to",
        "10",
        "--log",
        "FILE",
    ],
    "show --state --actor host": [
        "-m",
        "callboard",
        "show",
        "--state",
        "--actor",
        "host",
        "--json",
        "--log",
        "FILE",
    ],
    "export": ["-m", "callboard", "export", "--log", "FILE"],
}
"""A name, and the arguments of the interpreter that is measured."""

BEFORE: Final[dict[str, tuple[float, int]]] = {
    "open": (7.49, 556),
    "tree": (9.02, 571),
    "verify": (19.78, 632),
    "show --state --at 20": (7.30, 564),
    "show --state --at 20 --actor host": (8.17, 564),
    "events --step --from 10": (10.92, 717),
    "show --state --actor host": (19.33, 646),
}
"""CPU seconds and peak MiB when a recording held all rows and events: 714,295 events, two busy cores."""


class Cost(NamedTuple):
    """CPU seconds (user and system) and peak resident MiB of one process."""

    cpu_s: float
    peak_mib: int


def cost_of(arguments: list[str]) -> Cost:
    """Run this interpreter with these arguments and return its cost. Raises RuntimeError if it fails.

    `os.posix_spawn` and `os.wait4` instead of `subprocess`: the usage is that of this one child.
    """
    sink = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, sink, 1)]
    child = os.posix_spawn(
        sys.executable, [sys.executable, *arguments], dict(os.environ), file_actions=actions
    )
    os.close(sink)
    _, status, used = os.wait4(child, 0)
    if status:
        raise RuntimeError(f"{' '.join(arguments)}: exit status {os.waitstatus_to_exitcode(status)}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss // 1_024)


def measure(path: Path, rounds: int) -> None:
    """Print the table."""
    print(f"{'':<28}{'CPU s':>9}{'MiB':>7}    before: {'CPU s':>8}{'MiB':>7}")
    for name, pattern in MEASURED.items():
        arguments = [str(path) if one == "FILE" else one for one in pattern]
        found = min(cost_of(arguments) for _ in range(rounds))
        before = f"{BEFORE[name][0]:>8.2f}{BEFORE[name][1]:>7}" if name in BEFORE else f"{'-':>8}{'-':>7}"
        print(f"{name:<28}{found.cpu_s:>9.2f}{found.peak_mib:>7}            {before}")


def record(path: Path, events: int) -> None:
    """Record a session of at least so many events."""
    from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
    from callboard.actors.protocol.request import ModelRequest
    from callboard.runtime.models.scripted import Step

    rounds = max(1, round(events / (WORKERS * TURNS * EVENTS_OF_A_TURN)))

    @tool(effect="read")
    async def look(path: str) -> str:
        """Look at a file."""
        return f"contents of {path}: " + "text " * 10

    def script(request: ModelRequest) -> Step:
        if request.profile == "worker":
            return call("look", path=f"src/{request.turn}") if request.turn < TURNS else say("looked")
        if request.turn <= rounds:
            return calls(*(call("task", agent="worker", prompt=f"part {n}") for n in range(WORKERS)))
        return say("done")

    async def main() -> None:
        limits = Limits(max_iterations=10**6, max_agents=10**6, max_children=WORKERS)
        worker = Agent("worker", description="Works.", tools=[look])
        model = ScriptedModel(script)
        async with Runtime(path, model=model, limits=limits, durability="process") as runtime:
            outcome = await runtime.run(Agent("host", agents=[worker]), "Look at everything.")
        assert outcome.is_ok, outcome
        print(f"{path}: {outcome.head[0]:,} events")

    asyncio.run(main())


def main() -> None:
    """Record the session if the file does not exist, then measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("--events", type=int, default=700_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--record", action="store_true", help="only record")
    given = options.parse_args()
    if given.record:
        record(given.file, given.events)
        return
    if not given.file.exists():
        # in a process of its own: a child's peak memory begins at what its parent held when it was made
        cost_of([__file__, str(given.file), "--events", str(given.events), "--record"])
    measure(given.file, given.rounds)


if __name__ == "__main__":
    main()
