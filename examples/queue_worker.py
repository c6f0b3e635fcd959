"""A worker that takes jobs from a table in SQLite, four at a time.

    python examples/queue_worker.py add "Say hello to Ann" "Say hello to Bob"
    python examples/queue_worker.py work

Kill it at any moment and start it again: no job is lost, and none is done twice.

Each job is a session, with the id of the job as `session_id` and `request_id`. So a job that is taken again
goes on where it was, and a job that had its outcome gets the same outcome again.
"""

import asyncio
import random
import signal
import sqlite3
import sys

from callboard import Agent, Call, ModelRequest, Reply, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.errors import StoreLocked

TABLES = """
    create table if not exists jobs (id text primary key, prompt text, state text default 'new', result text);
    create table if not exists letters (key text primary key, words text);
"""
database = sqlite3.connect("jobs.db", isolation_level=None, check_same_thread=False)
database.executescript(TABLES)


@tool(effect="idempotent")
def send_letter(words: str, ctx: ToolContext) -> str:
    """Send a letter."""
    # A call that is made again after a crash has the same key, so the letter is sent once.
    database.execute("insert or ignore into letters values (?, ?)", (ctx.idempotency_key, words))
    return "sent"


async def decide(request: ModelRequest) -> Call | Reply:
    """Stand for a real model, such as `AnthropicModel("claude-...")`."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    if request.turn == 1:
        return call("send_letter", words=request.conversation[0]["content"])
    return say("The letter is on its way.")


clerk = Agent("clerk", instructions="Do what the job says, by letter.", tools=[send_letter])


def add(prompts: list[str]) -> None:
    """Add jobs."""
    for prompt in prompts:
        database.execute("insert into jobs (id, prompt) values (lower(hex(randomblob(8))), ?)", (prompt,))


def take() -> tuple[str, str] | None:
    """Take the oldest new job: its id and its prompt."""
    oldest = "select id from jobs where state = 'new' order by rowid limit 1"
    taken = f"update jobs set state = 'taken' where id = ({oldest}) returning id, prompt"
    return next(iter(database.execute(taken).fetchall()), None)


async def do(runtime: Runtime, job: str, prompt: str) -> None:
    """Do a job, or the rest of it, and store its result."""
    session = await runtime.open(clerk, session_id=job, resume=True, title=prompt)
    outcome = await session.ask(prompt, request_id=job)
    database.execute(
        "update jobs set state = ?, result = ? where id = ?", (outcome.status, outcome.text, job)
    )
    # Close last: if the process ends before the result is stored, the open session gives its outcome again.
    await session.close()


async def take_jobs(runtime: Runtime) -> None:
    """Do one job after the other."""
    while True:
        if job := take():
            await do(runtime, *job)
        else:
            await asyncio.sleep(0.2)


async def work() -> None:
    """Do jobs until the process is stopped."""
    if me := asyncio.current_task():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    async with Runtime("sessions.db", model=ScriptedModel(decide)) as runtime:
        # The log has one owner, so no other worker has these: they were taken by one that has ended.
        database.execute("update jobs set state = 'new' where state = 'taken'")
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(take_jobs(runtime))


if __name__ == "__main__":
    if sys.argv[1:2] == ["add"]:
        add(sys.argv[2:])
    else:
        try:
            asyncio.run(work())
        except StoreLocked as error:  # another worker has the file; the text names it and the way out
            sys.exit(str(error))
        except asyncio.CancelledError:
            pass  # SIGTERM cancels `work`; its jobs stay in the table, and the next worker resumes them
