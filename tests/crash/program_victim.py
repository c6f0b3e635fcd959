"""A process that runs a program and kills itself at one of its points, or goes on with it after that.

    python -m tests.crash.program_victim FOLDER sequence|gather POINT ROUNDS

POINT counts the places before and after each step and each effect of a tool; 0 never kills. The process
writes each effect to FOLDER/effects, and the text of the outcome to its stdout.
"""

import asyncio
import faulthandler
import os
import signal
import sys
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Final

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, ToolContext, program, tool
from callboard.errors import Interrupted
from tests.crash.step_points import pass_at_steps

SESSION: Final = "victim"
folder, shape, point, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
passed = 0


def pass_point() -> None:
    """Count a point, and die there if it is the one."""
    global passed
    passed += 1
    if passed == point:
        os.kill(os.getpid(), signal.SIGKILL)


def act(kind: str, n: int, ctx: ToolContext) -> int:
    pass_point()
    line = f"{kind} {n} {ctx.idempotency_key}\n".encode()
    file = os.open(folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line)
    os.fsync(file)
    os.close(file)
    pass_point()
    return n


@tool(effect="write")
async def write(n: int, ctx: ToolContext) -> int:
    """Write."""
    return act("write", n, ctx)


@tool(effect="idempotent")
async def put(n: int, ctx: ToolContext) -> int:
    """Put."""
    return act("put", n, ctx)


@tool(effect="read")
async def read(n: int) -> int:
    """Read."""
    await asyncio.sleep(0.002)
    return n


worker = Agent("worker", description="Works.")


async def known(work: Awaitable[object]) -> str:
    """Return the result of an ask, or a question mark for an unknown effect."""
    try:
        return str(await work)
    except Interrupted:
        return "?"


def asks(ctx: ProgramContext, n: int) -> Sequence[Awaitable[object]]:
    return (
        ctx.call("write", n=n),
        ctx.call("put", n=n),
        ctx.call("read", n=n),
        ctx.delegate(worker, f"part {n}"),
        ctx.call("write", n=100 + n),
    )


@program(tools=[write, put, read], agents=[worker])
async def sequence(ctx: ProgramContext, prompt: str) -> str:
    return " ".join([await known(one) for n in range(rounds) for one in asks(ctx, n)])


@program(tools=[write, put, read], agents=[worker])
async def gather(ctx: ProgramContext, prompt: str) -> str:
    return " ".join(await asyncio.gather(*(known(one) for n in range(rounds) for one in asks(ctx, n))))


async def main() -> None:
    host = {"sequence": sequence, "gather": gather}[shape]
    model = ScriptedModel(lambda request: f"did-{request.address}" if request.profile == "worker" else "")
    async with Runtime(str(folder / "victim.db"), model=model) as runtime:
        session = await runtime.open(host, session_id=SESSION, resume=True)
        outcome = await session.ask("go", request_id="one")
        print(outcome.kind, outcome.text)
        await session.close()


if __name__ == "__main__":
    pass_at_steps(pass_point)
    faulthandler.dump_traceback_later(50, exit=True)  # before the patience of the parent is over
    asyncio.run(main())
    print(passed, file=sys.stderr)
