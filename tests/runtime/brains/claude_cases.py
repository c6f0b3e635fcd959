"""A Claude client with two tools, the model that it is led to, and a process that dies in its run.

`python -m tests.runtime.brains.claude_cases LOG NOTES POINT` runs it until the deed POINT, and dies there.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import claude_agent
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.agents import turns_in

Note = Callable[[str], None]


def clients() -> list[int]:
    """Return the processes of clients in the temporary folder of this process, by their environment."""
    mine = f"CLAUDE_CONFIG_DIR={tempfile.gettempdir()}/callboard-claude-".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mine in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # of another user, or gone
            continue
    return found


def options(note: Note, **more: Any) -> ClaudeAgentOptions:
    """Return the options of a client with a tool that reads and one that writes."""

    @tool("add", "Add.", {"a": int, "b": int})
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        note("add")
        if given["a"] == 9:
            raise ValueError("no nines")
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    @tool("save", "Save.", {"key": str})
    async def save(given: dict[str, Any]) -> dict[str, Any]:
        note("save")
        return {"content": [{"type": "text", "text": f"saved {given['key']}"}]}

    server = create_sdk_mcp_server("cb", tools=[add, save])
    return ClaudeAgentOptions(system_prompt="Be terse.", mcp_servers={"cb": server}, **more)


def brain(note: Note, **more: Any) -> Any:
    """Return the brain of such a client."""
    return claude_agent(options(note, **more), "expert", description="Adds.", effects={"add": "read"})


def policy(request: ModelRequest) -> Any:
    """Answer as its model: add and save, add once more, then say the sum."""
    if turns_in(request) == 0:
        return calls(call("mcp__cb__add", a=2, b=3), call("mcp__cb__save", key="k"))
    if turns_in(request) == 1:
        return calls(call("mcp__cb__add", a=2, b=3))
    return say("It is 5.")


def model(note: Note) -> ScriptedModel:
    """Return that model, whose calls are noted."""

    def answer(request: ModelRequest) -> Any:
        note(f"model {turns_in(request)}")
        return policy(request)

    return ScriptedModel(answer)


def noting(path: Path, dies: str = "") -> Note:
    """Return a function that writes deeds to a file. dies: of which the process dies."""

    def note(what: str) -> None:
        with path.open("a") as file:
            file.write(what + "\n")
        if what == dies:
            time.sleep(0.1)  # what was answered before is on disk
            os.kill(os.getpid(), signal.SIGKILL)

    return note


if __name__ == "__main__":
    note = noting(Path(sys.argv[2]), sys.argv[3])
    runtime = Runtime(Path(sys.argv[1]), model=model(note), strict_spending=True)
    runtime.run_sync(brain(note), "2+3?", session_id="s")
