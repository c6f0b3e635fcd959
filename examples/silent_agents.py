"""Silent sub-agents: a stream shows the host alone, unless it names others; models are inherited.

    python examples/silent_agents.py

The models are scripts here. The reader also runs directly, as a host.
"""

import asyncio

from callboard import Agent, Call, ModelRequest, Reply, Runtime, ScriptedModel, Session, call, calls, say
from callboard.streaming import TextDelta


def policy(request: ModelRequest) -> Reply | Call:
    """Stand for both models."""
    if request.address == "host" and request.profile == "host" and request.turn == 1:
        tasks = [call("task", agent=name, prompt="Go on.") for name in ("reader", "sorter")]
        return calls(*tasks)
    return say(f"the {request.profile} speaks, by {request.model.name}")


cheap = ScriptedModel(policy, name="cheap")
reader = Agent("reader", description="Reads.")
sorter = Agent("sorter", description="Sorts.", model=cheap, model_reason="sorting needs no large model")


async def heard(session: Session, of: str) -> str:
    """Return the agents whose text a stream has. of: the agents that it is of."""
    pieces = [piece async for piece in session.text(of=of) if isinstance(piece, TextDelta)]
    return " ".join(sorted({piece.address for piece in pieces}))


async def main() -> None:
    """Ask a host, and listen to it and to all of its agents."""
    host = Agent("host", agents=[reader, sorter])
    async with Runtime(":memory:", model=ScriptedModel(policy, name="large")) as runtime:
        async with runtime.open(host) as session:
            quiet = asyncio.create_task(heard(session, "host"))
            loud = asyncio.create_task(heard(session, "*"))
            await asyncio.sleep(0)
            outcome = await session.ask("Go.")
            print(outcome.text, "|", *(one.text for one in outcome.delegations), sep="\n  ")
        print("heard of the host:", await quiet)
        print("heard of all:", await loud)
        print("directly:", (await runtime.run(reader, "Read.")).text)


if __name__ == "__main__":
    asyncio.run(main())
