"""Contexts: one task for four sub-agents, told nothing, a brief, a brief in the system prompt, or all.

    python examples/delegation_context.py

The model is a script here. Prints what each sub-agent knows when it begins.
"""

import asyncio

from callboard import (
    Agent,
    Brief,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    SystemContext,
    WholeHistory,
    call,
    calls,
    say,
    tool,
)


@tool(effect="read")
def read_file(path: str) -> str:
    """Read a file."""
    return f"{path} says that the tests run with pytest."


READERS = [
    Agent("alone", description="Knows its prompt.", tools=[read_file]),
    Agent("briefed", description="Has a brief.", tools=[read_file], context=Brief(tokens=500)),
    Agent("advised", description="Has it, too.", tools=[read_file], context=SystemContext(Brief(tokens=500))),
    Agent("informed", description="Goes on.", tools=[read_file], context=WholeHistory(tokens=5_000)),
]


def policy(request: ModelRequest) -> Reply:
    """Read a file, delegate to each reader, and let each say what it was told."""
    if request.profile != "host":
        roles = ", ".join(str(message["role"]) for message in request.conversation)
        told = "pytest" in str(request.conversation)
        advised = b"pytest" in bytes(request.system)
        return say(f"{request.profile:9}{roles:23} in messages: {told!s:6} in the system prompt: {advised}")
    if request.turn == 1:
        return calls(call("read_file", path="pyproject.toml"))
    if request.turn == 2:
        return calls(*(call("task", agent=reader.name, prompt="Which framework?") for reader in READERS))
    results = request.conversation[-1]["content"]
    assert isinstance(results, list)
    return say("\n".join(result["content"] for result in results))


async def main() -> None:
    """Run the session and print the answers of the readers."""
    host = Agent("host", tools=[read_file], agents=READERS)
    async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
        print((await runtime.run(host, "Find the testing framework.")).text)


if __name__ == "__main__":
    asyncio.run(main())
