"""A process that forks a session, and kills itself while a tool runs that was held for its recorded result.

    python -m tests.crash.fork_victim FOLDER write|idempotent live|ask fork|resume

The recorded result of `pay` wrote a file, which the fork has another version of. So the result does not fit
in its turn, and the tool runs. The process writes the key of each run to FOLDER/effects, and the text of the
outcome to its stdout.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Final, cast

from callboard import (
    Agent,
    Call,
    Files,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    say,
    tool,
)
from callboard.actors.protocol.effects import Effect
from callboard.actors.protocol.value_types import Effects
from callboard.tools.files import FILE_TOOLS

ORIGIN: Final = "origin"
FORK: Final = "fork"
folder, deed = Path(sys.argv[1]), sys.argv[4]
effect, effects = cast(Effect, sys.argv[2]), cast(Effects, sys.argv[3])


@tool(effect=effect)
async def pay(ctx: ToolContext) -> str:
    """Pay, and keep the receipt."""
    with (folder / "effects").open("a") as file:
        file.write(f"{ctx.idempotency_key}\n")
    if deed == "fork" and ctx.idempotency_key.startswith(FORK):
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.files.write_text("receipts", ctx.files.read_text("receipts") + "paid\n")
    return "paid"


def policy(request: ModelRequest) -> Call | Reply:
    if request.turn == 1:
        return call("write_file", path="receipts", content="none\n")
    if request.turn == 2:
        return call("pay")
    return say(str(request.conversation[-1]["content"]))


_OTHER: Final = {
    "type": "tool_use",
    "id": "t",
    "name": "write_file",
    "input": {"path": "receipts", "content": "some\n"},
}


async def main() -> None:
    host = Agent("host", tools=[*FILE_TOOLS, pay], model=ScriptedModel(policy))
    files = Files(folder / ("copy" if deed == "resume" else "root"), write=["."], history=True)
    async with Runtime(str(folder / "log.db"), files=files, approve=lambda question: True) as runtime:
        if deed == "fork":
            origin = await runtime.open(host, session_id=ORIGIN)
            await origin.ask("go")
            await origin.close()
            changes: dict[tuple[str, int, int] | int, object] = {("host", 1, -1): [_OTHER]}
            session = await runtime.fork(
                ORIGIN, host, changes=changes, effects=effects, files_to=folder / "copy", fork_id=FORK
            )
        else:
            session = await runtime.resume(FORK, host)
        outcome = await session.outcome
        print(outcome.kind, outcome.text)
        await session.close()


if __name__ == "__main__":
    asyncio.run(main())
