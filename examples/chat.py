"""A conversation that goes on the next day, in another process.

    python examples/chat.py ann "My name is Ann."
    python examples/chat.py ann "What is my name?"

Between the two no process runs. The agent knows the whole conversation from the log.
"""

import asyncio
import re
import sys

from callboard import Agent, ModelRequest, Reply, Runtime, ScriptedModel, say


def decide(request: ModelRequest) -> Reply:
    """Stand for a real model, such as `AnthropicModel("claude-...")`: it knows what stands above."""
    said = [str(one["content"]) for one in request.conversation if one["role"] == "user"]
    if found := re.search(r"My name is (\w+)", " ".join(said)):
        return say(f"Hello {found[1]}, this is your message number {len(said)}.")
    return say("Hello. What is your name?")


friend = Agent("friend", instructions="Be a good listener.")


async def talk(name: str, words: str) -> None:
    """Say something in the conversation of this name, which may be new."""
    async with Runtime("chats.db", model=ScriptedModel(decide)) as runtime:
        # Not `async with`: its end would close the conversation. The end of the runtime only leaves it.
        session = await runtime.open(friend, session_id=name, resume=True)
        outcome = await session.ask(words)
        print(outcome.unwrap())


if __name__ == "__main__":
    asyncio.run(talk(*sys.argv[1:3]))
