"""Long-term memory: an agent that knows in later sessions what it was told, for each user apart.

    python examples/long_memory.py

The model is a script here: it remembers what it is told, and recalls before it answers.
"""

import asyncio
import tempfile
from pathlib import Path

from callboard import Agent, ModelRequest, Reply, Runtime, ScriptedModel, call, calls, say
from callboard.replay import Recording
from callboard.tools.memory import MEMORY_TOOLS

helper = Agent("helper", instructions="Remember what matters, and recall it.", tools=MEMORY_TOOLS)


def policy(request: ModelRequest) -> Reply:
    """Stand for a model: keep what begins with `Note:`, and look up anything else."""
    asked = str(request.conversation[0]["content"])
    if request.turn == 1:
        noted = asked.removeprefix("Note: ")
        return calls(call("recall", query=asked) if noted == asked else call("remember", text=noted))
    results = request.conversation[-1]["content"]
    assert isinstance(results, list)
    return say(results[0]["content"])


async def main() -> None:
    """Tell it in one session, ask it in later ones, and print the answers."""
    with tempfile.TemporaryDirectory() as folder:
        log, memory = Path(folder) / "log.db", {user: Path(folder) / f"{user}.db" for user in ("ann", "bob")}
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            await runtime.run(helper, "Note: Ann drinks her tea without milk.", memory=memory["ann"])
            await runtime.run(helper, "Note: 安在北京大学工作。", memory=memory["ann"])
            for user, question in (("ann", "Which tea?"), ("ann", "她在北京吗?"), ("bob", "Which tea?")):
                outcome = await runtime.run(helper, question, memory=memory[user], session_id=question + user)
                print(f"{user}: {question} {outcome.text}")
        with Recording.open(log, "Which tea?ann") as recording:
            recording.verify().check()  # reads no memory: what was recalled is in the log
            print("verified without the memory")


if __name__ == "__main__":
    asyncio.run(main())
