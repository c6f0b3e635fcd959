"""callboard on the reference workload, in the peers' row format.

    python benchmarks/peer_callboard.py w1 full FOLDER [--agents N --turns N --latency S]

Needs CALLBOARD_BENCH (see README.md).
"""

import json
import os
import sys

from bench_folder import bench_folder

sys.path.insert(0, str(bench_folder()))

import workload as w

from callboard import Agent, Limits, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Call, Reply

REPORT = {
    "type": "object",
    "properties": {"agent": {"type": "integer"}, "total": {"type": "integer"}},
    "required": ["agent", "total"],
    "additionalProperties": False,
}


@tool(effect="read")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return w.add(a, b)


@tool(effect="read")
async def read_page(number: int) -> str:
    """Read a page."""
    return w.read_page(number)


def said(turn: dict[str, object]) -> Call:
    """Turn a step of the script into a reply."""
    if "report" in turn:
        return call("report_back", **turn["report"])
    return call(str(turn["tool"]), **turn["args"])


class FanOut:
    """The scripted model of w1 and w2: a pure function of who and turn."""

    def __init__(self, spec: w.Spec) -> None:
        self.spec = spec
        self.reports: list[dict[str, object]] = []

    def __call__(self, request: ModelRequest) -> Reply | Call:
        """Answer for one agent."""
        if request.profile == "sub":
            who = int(request.address.rpartition(".")[2]) - 1
            return said(w.sub_turn(who, request.turn - 1, self.spec.turns))
        if request.turn == 1:
            tasks = [
                call("task", agent="sub", prompt=w.TASK, output_schema=REPORT)
                for _ in range(self.spec.agents)
            ]
            return Reply(calls=tuple(tasks))
        results = request.conversation[-1]["content"]
        self.reports = [json.loads(result["content"]) for result in results]
        return say("done")


def limits_of(run: w.Run) -> Limits:
    """Raise the limits to the size of the work; `policy` raises the number of children only."""
    count = run.spec.agents or 1
    if run.variant == "policy":
        return Limits(max_children=count, max_agents=max(1_000, count + 1), max_tool_calls=max(128, count))
    return Limits(
        max_children=count,
        max_agents=count + 1,
        max_parallel_calls=count,
        max_tool_calls=max(128, count),
        max_iterations=max(30, run.spec.turns),
    )


def runtime_of(run: w.Run, model: ScriptedModel) -> Runtime:
    """Make the runtime of a variant."""
    durability = "process" if run.variant == "process" else "full"
    log = os.environ.get("CALLBOARD_LOG_URL") or run.folder / "log.db"
    return Runtime(log, model=model, limits=limits_of(run), durability=durability)


async def fan_out(run: w.Run) -> list[dict[str, object]]:
    script = FanOut(run.spec)

    async def slow(request: ModelRequest) -> Reply | Call:
        await w.think(run.spec.latency)
        return script(request)

    model = ScriptedModel(slow if run.spec.latency else script)
    host = Agent("host", agents=[Agent("sub", tools=[add])])
    async with runtime_of(run, model) as runtime:
        run.start()
        outcome = await runtime.run(host, w.TASK)
        run.stop()
    assert outcome.is_ok, outcome
    run.row["events"] = outcome.head[0]
    return script.reports


async def long_talk(run: w.Run) -> None:
    def script(request: ModelRequest) -> Call:
        return said(w.long_turn(request.turn - 1, run.spec.turns))

    async with runtime_of(run, ScriptedModel(script)) as runtime:
        run.start()
        outcome = await runtime.run(Agent("reader", tools=[read_page]), w.TASK, output_schema=REPORT)
        run.stop()
    assert outcome.structured_output == w.report_of(0, run.spec.turns), outcome
    run.row["events"] = outcome.head[0]


async def resume(run: w.Run) -> None:
    from callboard.replay.recording import Recording

    run.start()
    found = Recording.open(run.folder / "log.db").verify()
    run.stop()
    found.check()
    run.row["events"] = found.events


if __name__ == "__main__":
    w.main(
        "callboard",
        ["pykka", "msgspec", "aiosqlite"],
        ["full", "process", "policy"],
        fan_out,
        long_talk,
        resume,
    )
