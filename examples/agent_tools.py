"""Agents as tools: a contract, a hidden field, an instance for each call, and failures that are folded.

    python examples/agent_tools.py

The models are scripts here. Prints what the calling model read, and what the log keeps.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from callboard import Agent, Call, ModelRequest, Reply, Runtime, ScriptedModel, call, calls, say, tool
from callboard.replay import Recording


class Search(msgspec.Struct):
    """A search in the documents of one tenant."""

    tenant: str
    query: str
    most: int = 2


def make_searcher() -> Agent:
    """Make an agent that remembers, for one call, which documents it has opened."""
    opened: list[str] = []

    @tool(effect="read")
    def open_document(name: str) -> str:
        """Open a document, and tell how many are open."""
        opened.append(name)
        return f"{name} is open, {len(opened)} in all"

    searcher = Agent("searcher", description="Searches documents.", input=Search, tools=[open_document])
    return searcher.preset(tenant="acme")


def make_broken() -> Agent:
    """Fail, as an agent whose folder is missing."""
    raise FileNotFoundError("there is no folder of letters")


def policy(request: ModelRequest) -> Reply | Call:
    """Stand for the models of all agents."""
    if request.profile == "searcher":
        return call("open_document", name=f"page {request.turn}") if request.turn < 3 else say("two pages")
    if request.turn == 1:
        wrong = call("searcher", query="bills", tenant="other")
        return calls(call("searcher", query="bills"), call("searcher", query="letters", most=1), wrong)
    if request.turn == 2:
        return call("task", agent="letters", prompt="Read my letters.")
    return say("I have searched twice.")


async def main() -> None:
    """Run the session, and print both sides of it."""
    letters = Agent.made_by(make_broken, name="letters", description="Reads.", on_broken="unavailable")
    host = Agent("host", instructions="Search.", agents=[make_searcher, letters])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tools.db"
        async with Runtime(path, model=ScriptedModel(policy)) as runtime:
            outcome = await runtime.run(host, "Find the bills and the letters.", session_id="tools")
        print(outcome.text)
        for one in outcome.delegations:
            metadata: dict[str, Any] = one.metadata or {}
            print(f"  {one.address} {one.profile}: {one.kind}, read as {metadata['response']}")
        found = Recording.open(path, "tools").verify()
        print(f"verified without the contract: {found.divergence is None}")


if __name__ == "__main__":
    asyncio.run(main())
