"""A researcher who starts three readers in the background, and listens to you while they read.

    python examples/researcher.py

The model here is a script; with a real one, remove `ScriptedModel` and pass `model="anthropic:..."`.
"""

import asyncio

from callboard import Agent, Call, Reply, Runtime, ScriptedModel, call, calls, say, tool

BOOKS = {"whales": 0.02, "ships": 0.04, "storms": 0.06}
"""The books, and the seconds that reading one takes."""

begun = asyncio.Event()


@tool(effect="read")
async def read_book(title: str) -> str:
    """Read a book."""
    begun.set()
    await asyncio.sleep(BOOKS[title])
    return f"{title} matter"


def read(title: str) -> list[Call | Reply]:
    """Return the replies of a reader."""
    return [call("read_book", title=title), say(f"The book says: {title} matter.")]


reader = Agent("reader", description="Reads one book.", tools=[read_book])
researcher = Agent("researcher", agents=[reader], background=True)
model = ScriptedModel(
    {
        "host": [
            calls(*(call("task", prompt=f"Read about {title}.", background=True) for title in BOOKS)),
            call("task_wait", any=True),
            say("One reader is done. I have heard you, and wait for the others."),
            lambda request: say(f"My report for {heard(str(request.conversation))}: all three matter."),
        ],
        **{f"host.{number}": read(title) for number, title in enumerate(BOOKS, 1)},
    }
)


def heard(conversation: str) -> str:
    """Return the readers of the report that the user has named meanwhile."""
    return "sailors" if "for sailors" in conversation else "everybody"


async def main() -> None:
    """Ask for a report, and say a word while the readers read."""
    async with Runtime("research.db", model=model) as runtime, runtime.open(researcher) as session:
        asking = asyncio.create_task(session.ask("What matters at sea?"))
        await begun.wait()
        turn = await session.tell("host", "Write it for sailors.")
        print(f"the researcher heard it in turn {turn}")
        outcome = await asking
        print(outcome.text)
        print(", ".join(f"{one.address} {one.kind}" for one in outcome.delegations))


if __name__ == "__main__":
    asyncio.run(main())
