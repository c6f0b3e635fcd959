"""A process that is killed in the middle of a call, and the next one, which resumes its session."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, MCPServer, Runtime
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import CallboardError
from callboard.replay import Recording
from tests.pages import ROOT
from tests.processes import running
from tests.runtime.mcp.kit import NAME, RAW, asking, calls_of
from tests.waiting import block_until

SCRIPT = """
import asyncio, sys
from callboard import Agent, MCPServer, Runtime
from tests.runtime.mcp.kit import NAME, RAW, asking
async def main():
    log, notes, effect = sys.argv[1:]
    server = MCPServer([sys.executable, str(RAW), notes], effects={"slow": effect})
    async with Runtime(log, model=asking("slow", "echo")) as runtime:
        session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
        await session.ask("go")
asyncio.run(main())
"""


def killed_in_the_call(log: Path, notes: Path, effect: str) -> None:
    """Run a session in a process of its own, and kill that once the server has the call."""
    command = [sys.executable, "-c", SCRIPT, str(log), str(notes), effect]
    with running(command, cwd=ROOT) as process:
        # A read is sent before its request is durable: without that, the next process has nothing to resume.
        block_until(
            lambda: (
                (calls_of(notes) == ["slow"] and "CallTool" in kinds_in(log)) or process.poll() is not None
            )
        )
        assert process.poll() is None


def kinds_in(log: Path) -> set[str]:
    """Return the kinds of the durable events of the session, which need not be there yet."""
    with contextlib.suppress(CallboardError):
        return {event.kind for event in Recording.open(log, NAME).events}
    return set()


@pytest.mark.slow
@pytest.mark.parametrize(("effect", "times"), [("write", 1), ("read", 2)])
def test_a_kill_in_the_middle_of_a_write_leaves_it_interrupted_and_sent_once(
    tmp_path: Path, effect: Any, times: int
) -> None:
    log, notes = tmp_path / "a.db", tmp_path / "notes"
    killed_in_the_call(log, notes, effect)

    async def main() -> None:
        # A read is sent again: to a server that answers under this name, so that it comes to an end.
        server = MCPServer([sys.executable, str(RAW), str(notes), "quick"], effects={"slow": effect})
        async with Runtime(log, model=asking("slow", "echo")) as runtime:
            session = await runtime.resume(NAME, Agent("host", tools=[server]))
            assert (await session.outcome).text == "done"
            await session.close()

    asyncio.run(main())
    recording = Recording.open(log, NAME)
    recording.verify().check()
    statuses = [event.body.status for event in recording.events if isinstance(event.body, ToolReturned)]
    assert statuses == ["interrupted" if effect == "write" else "ok", "ok"]
    assert calls_of(notes).count("slow") == times
