"""The cost of permissions: 100 sub-agents of 5 turns, with a bundle of every entry and two rules of labels.

    python benchmarks/rights.py [--rounds 8]
    python benchmarks/rights.py --count

Prints a line of JSON: the least processor time without and with the bundle, in alternation, and their ratio.
With --count, the instructions by callgrind, which needs valgrind.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from instructions import switch

from callboard import Agent, Limits, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.permissions import Allowed, Bundle, Denied, LabelRule
from callboard.runtime.models.scripted import Call, Reply

AGENTS: Final = 100
TURNS: Final = 5
WHOLE: Final = Bundle(
    do=Allowed(
        tools=("add", "read_*"),
        effects=("idempotent", "read"),
        capabilities=("network", "files"),
        models=("scripted",),
        agents=("sub", "other"),
        secrets=("TOKEN",),
        memory=("shared",),
        read=("docs", "src"),
        write=("docs",),
        hosts=("api.example.com", "*.example.org"),
    ),
    deny=Denied(
        tools=("shell",),
        capabilities=("shell",),
        models=("x",),
        agents=("y",),
        secrets=("KEY",),
        memory=("z",),
    ),
    when=(LabelRule("untrusted", "network"), LabelRule("secret", "files")),
)
_COUNT: Final = re.compile(r"Collected : (\d+)")


@tool(effect="read", capabilities=("files",))
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def plan(request: ModelRequest) -> Reply | Call:
    """Let the host delegate once, and each sub-agent call its tool in every turn but the last."""
    if request.profile == "host":
        tasks = tuple(call("task", agent="sub", prompt="add") for _ in range(AGENTS))
        return Reply(calls=tasks) if request.turn == 1 else say("done")
    return call("add", a=request.turn, b=1) if request.turn < TURNS else say("done")


async def once(folder: Path, bundle: Bundle | None, *, counts: bool = False) -> float:
    """Run the session once. Return its processor seconds."""
    host = Agent("host", agents=[Agent("sub", tools=[add])], permissions=bundle)
    limits = Limits(max_children=AGENTS, max_agents=AGENTS + 1, max_parallel_calls=AGENTS)
    async with Runtime(folder / "log.db", model=ScriptedModel(plan), limits=limits) as runtime:
        if counts:
            switch("on")
        start = time.process_time()
        outcome = await runtime.run(host, "go")
        spent = time.process_time() - start
        if counts:
            switch("off")
    assert outcome.is_ok, outcome
    return spent


def timed(bundle: Bundle | None) -> float:
    """Run the session once in a log of its own. Return its processor seconds."""
    with tempfile.TemporaryDirectory() as temp:
        return asyncio.run(once(Path(temp), bundle))


def counted(name: str) -> int:
    """Return the instructions of one run. name: `without` or `with`."""
    with tempfile.TemporaryDirectory() as temp:
        counter = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            f"--callgrind-out-file={temp}/counts",
        ]
        command = [*counter, sys.executable, __file__, "--child", name, temp]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(_COUNT.findall(done.stderr)[-1])


def main() -> None:
    """Measure as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder = options.child
        asyncio.run(once(Path(folder), WHOLE if name == "with" else None, counts=True))
        return
    if options.count:
        plain, bounded = (float(counted(name)) for name in ("without", "with"))
    else:
        both = [(timed(None), timed(WHOLE)) for _ in range(options.rounds)]
        plain, bounded = (min(one) for one in zip(*both, strict=True))
    unit = "instructions" if options.count else "s"
    print(json.dumps({"unit": unit, "without": plain, "with": bounded, "ratio": round(bounded / plain, 3)}))


if __name__ == "__main__":
    main()
