"""CPU time of a Claude client's turns alone and in a session, and of its restart beside a recorded run.

    python benchmarks/claude_brain.py [--turns 50] [--rounds 3]

Each turn calls one tool. The client is a process of its own, so its CPU time is counted too. Alone it is
answered by the same gateway, without a session, and calls its tools itself. The restart is that of a run
whose last question is open: a new client asks everything once more, and the log answers all but the last.
The ways take turns; the medians are printed. The start of a client is the time of a run of one turn.
"""

import argparse
import asyncio
import logging
import resource
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

from callboard import Limits, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.brains import claude_agent
from callboard.runtime.brains.claude_client import ClientHome
from callboard.runtime.brains.claude_gateway import ClientGateway
from callboard.runtime.programs.asks import Answer, Reply
from callboard.runtime.programs.kept_requests import Written

TEXT = "x" * 200
LIMITS = Limits(max_iterations=10_000)


@tool("look", "Look.", {"at": int})
async def look(given: dict[str, Any]) -> dict[str, Any]:
    """Look."""
    return {"content": [{"type": "text", "text": f"{TEXT} {given['at']}"}]}


OPTIONS = ClaudeAgentOptions(
    system_prompt="Look.",
    mcp_servers={"eyes": create_sdk_mcp_server("eyes", tools=[look])},
    allowed_tools=["mcp__eyes__look"],
)


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the CPU milliseconds of some work, with those of processes that have ended in it."""
    started = _spent()
    work()
    return (_spent() - started) * 1_000


def _spent() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


async def alone(turns: int) -> None:
    """Run the client by its SDK."""

    async def ask(request: Written) -> Answer:
        done = sum(b'"role":"assistant"' in bytes(said) for said in request.messages)
        block: dict[str, Any] = {"type": "text", "text": "done"}
        if done < turns - 1:
            block = {"type": "tool_use", "id": f"t{done}", "name": "mcp__eyes__look", "input": {"at": done}}
        reply = Reply("end_turn" if block["type"] == "text" else "tool_use", Usage(1, 1))
        return Answer(f"a{done}", value=Json(msgspec.json.encode([block])), reply=reply)

    gateway = ClientGateway("token", ask)
    home = ClientHome(await gateway.start(), "token", 8_192)
    own = {"tools": [], "setting_sources": [], "cwd": home.work, "cli_path": home.command}
    async for said in query(prompt="go", options=replace(OPTIONS, **own)):
        result = getattr(said, "result", None)
    assert result == "done", result
    await gateway.aclose()
    home.remove()


def model(turns: int, *, ends: bool = True) -> ScriptedModel:
    """Return the model of a session. ends: it gives its last answer."""

    async def answers(request: Any) -> Any:
        done = sum(said["role"] == "assistant" for said in request.conversation)
        if done < turns - 1:
            return call("mcp__eyes__look", at=done)
        if not ends:
            await asyncio.Event().wait()
        return say("done")

    return ScriptedModel(answers)


def brain() -> Any:
    """Make the agent."""
    return claude_agent(OPTIONS, "looker", effects={"look": "read"})


def in_session(turns: int) -> None:
    """Run the client in a session."""
    outcome = Runtime(":memory:", model=model(turns), limits=LIMITS).run_sync(brain(), "go")
    assert (outcome.text, outcome.usage.calls) == ("done", turns), outcome


async def left_open(turns: int, log: Path) -> None:
    """Record a run whose last question is open."""
    async with Runtime(log, model=model(turns, ends=False), limits=LIMITS) as runtime:
        session = await runtime.open(brain(), session_id="s")
        ask = asyncio.ensure_future(session.ask("go"))
        asked = 0
        async for event in session.events():
            asked += type(event.body).__name__ == "CallModel" and event.body.agent != "host"
            if asked == turns:
                break
    await asyncio.gather(ask, return_exceptions=True)


async def restarted(turns: int, log: Path) -> None:
    """Resume that run."""
    async with Runtime(log, model=model(turns), limits=LIMITS) as runtime:
        outcome = await (await runtime.resume("s", brain())).outcome
        assert outcome.text == "done", outcome


def main() -> None:
    """Print the medians, and their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    rounds = []
    with TemporaryDirectory() as folder:
        first, copy = Path(folder) / "first.db", Path(folder) / "copy.db"
        asyncio.run(left_open(given.turns, first))
        for _ in range(given.rounds):
            shutil.copy(first, copy)
            rounds.append((
                cpu_ms(lambda: asyncio.run(alone(1))),
                cpu_ms(lambda: asyncio.run(alone(given.turns))),
                cpu_ms(lambda: in_session(given.turns)),
                cpu_ms(lambda: asyncio.run(restarted(given.turns, copy))),
            ))  # fmt: skip
            copy.unlink()
    start, client, ours, again = (median(column) for column in zip(*rounds, strict=True))
    print(f"{given.turns} turns: client alone {client:.0f} ms, of which its start {start:.0f} ms")
    more = (ours - client) / given.turns
    print(f"in a session {ours:.0f} ms, {more:.2f} more a turn: {ours / client:.2f} times")
    print(f"restarted {again:.0f} ms: {again / client:.2f} times")


if __name__ == "__main__":
    main()
