"""A deployment: approval by a person, a release, health checks, and a rollback where one fails.

    python examples/deployment.py 2.0
    python examples/deployment.py 2.1-broken

Kill it at any moment and start it again: it goes on where it was, and releases nothing twice.
"""

import asyncio
import sqlite3
import sys

from callboard import Approval, ProgramContext, Runtime, ToolContext, program, tool

site = sqlite3.connect("site.db", isolation_level=None)
site.execute("create table if not exists releases (key text primary key, version text)")


def running() -> str:
    """Return the version that runs."""
    row = site.execute("select version from releases order by rowid desc limit 1").fetchone()
    return row[0] if row else "1.0"


@tool(effect="read")
async def current_version() -> str:
    """Return the version that runs now."""
    return running()


@tool(effect="idempotent", approval="before")
async def release(version: str, ctx: ToolContext) -> str:
    """Release a version."""
    # A call that is made again after a crash has the same key, so it releases once.
    site.execute("insert or ignore into releases values (?, ?)", (ctx.idempotency_key, version))
    return f"released {version}"


@tool(effect="idempotent")
async def roll_back(version: str, ctx: ToolContext) -> str:
    """Go back to the version of before, without a question."""
    site.execute("insert or ignore into releases values (?, ?)", (ctx.idempotency_key, version))
    return f"back to {version}"


@tool(effect="read")
async def is_healthy() -> bool:
    """Return whether the site answers."""
    return "broken" not in running()


@program(tools=[current_version, release, roll_back, is_healthy])
async def deployment(ctx: ProgramContext, version: str) -> str:
    """Release a version, and go back to the one before if the site is not healthy."""
    before = await ctx.call(current_version)
    await ctx.call(release, version=version)
    for _ in range(3):
        await ctx.sleep(0.1)  # survives a restart: a resumed program waits for the rest
        if not await ctx.call(is_healthy):
            await ctx.call(roll_back, version=before)
            return f"{version} failed, back to {before}"
    return f"{version} runs"


async def approve(question: Approval) -> bool:
    """Ask the person at the terminal, which here always agrees."""
    print(f"may I {question.tool} {question.arguments}? yes")
    return True


async def main(version: str) -> None:
    """Deploy a version, or go on with its deployment."""
    async with Runtime("deployments.db", approve=approve) as runtime:
        session = await runtime.open(deployment, session_id=f"deploy-{version}", resume=True)
        print((await session.ask(version, request_id="deploy")).text)


if __name__ == "__main__":
    asyncio.run(main("".join(sys.argv[1:]) or "2.0"))
