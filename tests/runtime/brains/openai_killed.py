"""A brain whose process dies by SIGKILL inside its tool, for a test that goes on in another process.

    python -m tests.runtime.brains.openai_killed LOG DONE

The tool writes a line into the file DONE, and its process kills itself before the tool returns.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import agents
from agents import function_tool

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import openai_agent
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime


def payer(done: Path, *, dies: bool) -> Any:
    """Make a brain that looks and pays at once, by an agent that it hands off to."""

    @function_tool
    def look() -> str:
        """Look."""
        with done.open("a") as file:
            file.write("looked\n")
        return "found"

    @function_tool
    def pay(euros: int) -> str:
        """Pay."""
        with done.open("a") as file:
            file.write(f"paid {euros}\n")
        if dies:
            time.sleep(0.2)  # what was answered before is on disk
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    cashier = agents.Agent("cashier", instructions="Pay.", tools=[look, pay])
    return openai_agent(
        agents.Agent("desk", instructions="Hand off.", handoffs=[cashier]), effects={"look": "read"}
    )


def answers(asked: list[int]) -> Any:
    """Return the answers of the model, which notes the length of each request."""

    def play(request: ModelRequest) -> Any:
        asked.append(len(request.conversation))
        if len(request.conversation) == 1:
            return call("transfer_to_cashier")
        if len(request.conversation) == 3:
            return calls(call("look"), call("pay", euros=5))
        told = [block["content"] for block in request.conversation[-1]["content"]]
        return say(" | ".join(told))

    return play


def main() -> None:
    """Run until the process dies."""
    log, done = sys.argv[1:]
    runtime = Runtime(log, model=ScriptedModel(answers([])))
    runtime.run_sync(payer(Path(done), dies=True), "Pay 5.", session_id="s")


if __name__ == "__main__":
    main()
