"""A log of 1 GB is looked at in bounded memory: `make campaign` makes one and measures each view."""

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, calls, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.search import Query
from callboard.runtime.models.scripted import Step
from tests.effort import IS_CAMPAIGN

READERS = 200
AT_ONCE = 4
EACH = 10
RESULT_BYTES = 550_000
MEMORY_MIB = 200
"""The most that a view may hold: the interpreter with its modules has 50."""

CPU_S = 60
VIEWS = (
    ("events", "large"),
    ("events", "large", "--grouped"),
    ("search", "large", "needle"),
    ("why", "large#NEEDLE", "--value", "needle"),
    ("request", "large#NEEDLE"),
    ("show", "large"),
    ("tree", "large", "--reports"),
    ("sessions",),
    ("show", "large", "--state"),
    ("show", "large", "--state", "--actor", "host.150"),
    ("show", "large", "--budget"),
    ("show", "large", "--tools"),
    ("diagnose", "large"),
    ("verify", "large"),
    ("diff", "large", "large"),
    ("export", "large"),
    ("export", "large", "--format", "markdown"),
    ("export", "large", "--format", "html"),  # what `callboard ui` opens
)
"""NEEDLE: the first event with the word."""


async def _record(path: Path) -> None:
    """Record a session with results that are all different, each agent with ten of them."""
    random_bytes = random.Random(1).randbytes

    @tool(effect="read")
    async def read(n: int) -> str:
        """Read a part."""
        return "needle " * (n == 2) + random_bytes(RESULT_BYTES // 2).hex()

    def script(request: ModelRequest) -> Step:
        if request.profile == "reader":
            return call("read", n=request.turn) if request.turn <= EACH else say("read")
        if request.turn <= READERS // AT_ONCE:
            return calls(*(call("task", agent="reader", prompt=f"part {n}") for n in range(AT_ONCE)))
        return say("done")

    many = 10**6
    limits = Limits(max_agents=many, max_children=many, max_iterations=many, max_tool_output_chars=many)
    host = Agent("host", agents=[Agent("reader", description="Reads.", tools=[read])])
    async with Runtime(path, model=ScriptedModel(script), limits=limits, durability="process") as runtime:
        outcome = await runtime.run(host, "Read everything.", session_id="large")
    assert outcome.is_ok, outcome


# A process of its own for each view, made by a small one: a child's peak begins at what its parent holds.
_LAUNCH = """
import os, sys
command = [sys.executable, "-m", "callboard", *sys.argv[1:]]
sink = os.open(os.devnull, os.O_WRONLY)
child = os.posix_spawn(command[0], command, dict(os.environ), file_actions=[(os.POSIX_SPAWN_DUP2, sink, 1)])
_, status, used = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss // 1_024, used.ru_utime + used.ru_stime)
"""


def _cost(view: tuple[str, ...], log: Path) -> tuple[int, float]:
    """Run a view. Return the MiB that it held at most, and its CPU seconds."""
    command = [sys.executable, "-c", _LAUNCH, *view, "--log", str(log)]
    code, peak, cpu = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.split()
    assert code == b"0", view
    return int(peak), float(cpu)


@pytest.mark.timeout(1_800)
@pytest.mark.skipif(not IS_CAMPAIGN, reason="makes a log of 1 GB: CAMPAIGN=1")
def test_each_view_of_a_log_of_1_gb_holds_little_of_it(tmp_path: Path) -> None:
    log = tmp_path / "large.db"
    asyncio.run(_record(log))
    assert log.stat().st_size > READERS * EACH * RESULT_BYTES * 0.9
    with Recording.open(log) as recording:
        needle = next(recording.search(Query(text="needle"))).row.seq
    costs = {view: _cost(tuple(one.replace("NEEDLE", str(needle)) for one in view), log) for view in VIEWS}
    assert {view: mib for view, (mib, _) in costs.items() if mib > MEMORY_MIB} == {}, costs
    assert {view: cpu_s for view, (_, cpu_s) in costs.items() if cpu_s > CPU_S} == {}
