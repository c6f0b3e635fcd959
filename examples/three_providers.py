"""A question for models of three providers, behind one host.

    export ANTHROPIC_API_KEY=... OPENAI_API_KEY=...
    ollama pull gemma3
    python examples/three_providers.py "Is a whale a fish?"

The host asks two sub-agents at the same time and weighs what they say. Each agent names its own model. If the
host's provider is busy or down, the next provider goes on with the same conversation.
"""

import asyncio
import sys

from callboard import Agent, Fallback, OllamaModel, Runtime

CLAUDE = "anthropic:claude-sonnet-5"
GPT = "openai:gpt-5"

scholar = Agent(
    "scholar",
    description="Answers from what is known. Expensive.",
    instructions="Answer in two sentences, and say how sure you are.",
    model=GPT,
)
neighbour = Agent(
    "neighbour",
    description="Answers off the cuff, on this machine.",
    instructions="Answer in one sentence.",
    model=OllamaModel("gemma3", context=8_192),
)
host = Agent(
    "host",
    instructions="Put the question to the scholar and the neighbour, both at once. Then say who is right.",
    agents=[scholar, neighbour],
    model=Fallback([CLAUDE, GPT]),
)


async def main(question: str) -> None:
    """Ask, and show who said what, and what it took."""
    async with Runtime("providers.db") as runtime:
        outcome = await runtime.run(host, question)
    for one in outcome.delegations:
        print(f"{one.profile}: {one.text}")
    print(outcome.text)
    print(f"{outcome.usage.calls} model calls, {outcome.usage.tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Is a whale a fish?"))
