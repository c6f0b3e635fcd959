"""A process whose agent shortens its conversation, and that kills itself at one of its points.

    python -m tests.crash.compaction_victim FOLDER POINT

POINT counts the places before and after each batch that is appended and each answer of the model; 0 never
kills. The process writes the digest of each request that the model gets to FOLDER/asked, and to its stderr
the points at which a compaction was under way. Its stdout is the text of the outcome.
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from callboard import Agent, Compact, Limits, ModelRequest, Reply, Runtime, ScriptedModel, Usage, call, tool
from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.messages import TurnRequested
from callboard.runtime.log.protocol import Append, Head
from callboard.runtime.log.sqlite.log import SQLiteLog

SESSION: Final = "victim"
TURNS: Final = 26
WINDOW: Final = 12_000
folder, point = Path(sys.argv[1]), int(sys.argv[2])
passed = 0
is_compacting = False
compactions: list[int] = []


def pass_point() -> None:
    """Count a point, and die there if it is the one."""
    global passed
    passed += 1
    if is_compacting:
        compactions.append(passed)
    if passed == point:
        os.kill(os.getpid(), signal.SIGKILL)


def note(request: ModelRequest) -> None:
    """Write down what the model is asked, for good."""
    file = os.open(folder / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{request.turn} {request.attempt} {request.digest}\n".encode())
    os.fsync(file)
    os.close(file)


@tool(effect="read")
def look(number: int) -> str:
    """Look at a page."""
    return f"page {number} " + "words " * (300 if number % 3 else 1)


def policy(request: ModelRequest) -> Reply:
    pass_point()
    note(request)
    pass_point()
    unknown = Usage(input_tokens=0)
    if b"about to be replaced" in bytes(request.message(request.length - 1)):
        return Reply(f"Summary in turn {request.turn}.", usage=unknown)
    if request.turn >= TURNS:
        texts = [block["text"] for block in request.conversation[0]["content"]]
        return Reply(" | ".join(texts), usage=unknown)
    return Reply("talk " * 100, [call("look", number=request.turn)], usage=unknown)


def watch_appends() -> None:
    """Pass a point before and after each batch, from now on in this process."""
    original = SQLiteLog.append

    async def append(log: SQLiteLog, batch: Sequence[Append]) -> list[Head | Exception]:
        global is_compacting
        bodies = [event.body for one in batch for event in one.events]
        asked = [one for one in bodies if isinstance(one, TurnRequested)]
        is_compacting = is_compacting or any(isinstance(one, Compacted) for one in bodies)
        is_compacting = is_compacting or any(one.purpose for one in asked)
        pass_point()
        heads = await original(log, batch)
        pass_point()
        is_compacting = is_compacting and not (asked and not asked[-1].purpose)
        return heads

    SQLiteLog.append = append  # type: ignore[assignment,method-assign]  # patched to die in a commit


async def main() -> None:
    model = ScriptedModel(policy, max_tokens=500, context_tokens=WINDOW)
    host = Agent("host", tools=[look], compact=Compact(keep_turns=2))
    limits = Limits(max_iterations=2 * TURNS)
    async with Runtime(str(folder / "victim.db"), model=model, strict_spending=True) as runtime:
        session = await runtime.open(host, session_id=SESSION, resume=True, limits=limits)
        outcome = await session.ask("go", request_id="one")
        print(outcome.kind, outcome.text)
        await session.close()


if __name__ == "__main__":
    watch_appends()
    faulthandler.dump_traceback_later(50, exit=True)  # before the patience of the parent is over
    asyncio.run(main())
    print(passed, *compactions, file=sys.stderr)
