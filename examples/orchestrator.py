"""A typed orchestrator: it plans, asks specialists side by side, and falls back for one that is too slow.

    python examples/orchestrator.py "Is a heat pump worth it?"

The specialists are scripts here. With a real model they are ordinary agents, and the program stays as it is.
"""

import asyncio
import sys
from dataclasses import dataclass

from callboard import (
    Agent,
    Call,
    ModelRequest,
    ProgramContext,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    program,
    say,
)
from callboard.errors import DelegationFailed


@dataclass
class Finding:
    """The report of a specialist. confidence: from 0 to 1."""

    text: str
    confidence: float


async def decide(request: ModelRequest) -> Call | Reply:
    """Stand for real models."""
    if request.profile == "engineer":
        return call("report_back", text="It saves half of the energy.", confidence=0.9)
    if request.profile == "economist":
        await asyncio.sleep(60)  # too long for its time limit
    if request.profile == "thumb":
        return say("It pays after about ten years.")
    return call("report_back", text="I do not know.", confidence=0.1)


engineer = Agent("engineer", description="Knows machines.")
economist = Agent("economist", description="Knows prices.")
lawyer = Agent("lawyer", description="Knows rules.")
thumb = Agent("thumb", description="Answers at once.")


@program(agents=[engineer, economist, lawyer, thumb])
async def orchestrator(ctx: ProgramContext, prompt: str) -> str:
    """Ask all specialists, and answer with what comes in time."""

    async def ask(specialist: Agent) -> Finding | None:
        try:
            async with asyncio.timeout(0.5):  # its delegation ends as `cancelled`, with all below it
                return await ctx.delegate(specialist, prompt, schema=Finding)
        except (TimeoutError, DelegationFailed):
            return None

    specialists = [engineer, economist, lawyer]
    found = await asyncio.gather(*(ask(one) for one in specialists))
    sure = [finding.text for finding in found if finding is not None and finding.confidence > 0.5]
    missing = [one.name for one, finding in zip(specialists, found, strict=True) if finding is None]
    if not missing:
        return " ".join(sure)
    fallback = await ctx.delegate(thumb, prompt)
    return f"{' '.join([*sure, fallback])} (no word of the {' and the '.join(missing)})"


if __name__ == "__main__":
    question = " ".join(sys.argv[1:]) or "Is a heat pump worth it?"
    outcome = Runtime("orchestrator.db", model=ScriptedModel(decide)).run_sync(orchestrator, question)
    print(outcome.text)
    for one in outcome.delegations:
        print(f"  {one.address} {one.profile}: {one.kind}")
