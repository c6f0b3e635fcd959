"""Structured reports: a schema of the profile, of a call and of a run, and the first valid report wins.

    python examples/reports.py

The models are scripts here. Prints each report, and what was refused.
"""

import asyncio
from dataclasses import dataclass

from callboard import Agent, Call, ModelRequest, Reply, Runtime, ScriptedModel, call, calls


@dataclass
class Verdict:
    """The judgement of one agent."""

    is_good: bool
    score: int


judge = Agent("judge", description="Judges.", output_schema=Verdict)
counter = Agent("counter", description="Counts.", output_schema_arg="form")
writer = Agent("writer", description="Writes.", output_schema_arg=None)


def policy(request: ModelRequest) -> Reply | Call:
    """Stand for the models of all agents."""
    if request.profile == "judge":  # two reports in one turn: the second is the first valid one
        return calls(call("report_back", is_good="yes"), call("report_back", is_good=True, score=9))
    if request.profile == "counter":
        return call("report_back", value=[3, 4])
    if request.turn == 1:
        numbers = {"type": "array", "items": {"type": "integer"}}
        return calls(
            call("task", agent="judge", prompt="Judge it."),
            call("task", agent="counter", prompt="Count.", form=numbers),
            call("task", agent="writer", prompt="Write.", output_schema=numbers),
        )
    return call("report_back", is_good=True, score=7)


async def main() -> None:
    """Run the host, whose own report has a type too."""
    host = Agent("host", agents=[judge, counter, writer])
    async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
        outcome = await runtime.run(host, "Ask all.", output_schema=Verdict)
        print("of the run:", outcome.unwrap())
        for one in outcome.delegations:
            print(f"of {one.profile}: {one.kind}, {one.value}")


if __name__ == "__main__":
    asyncio.run(main())
