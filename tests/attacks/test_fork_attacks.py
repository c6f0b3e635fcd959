"""A forked child that closes its copy of a runtime returns at once and leaves its parent's log alone."""

from pathlib import Path

import pytest

from callboard.replay.recording import Recording
from tests.runtime.log.kit import child

SCRIPT = """
import asyncio, os, sys, time
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

moment, path = sys.argv[1:]
may_end = asyncio.Event()

@tool(effect="read")
async def wait() -> str:
    '''Wait.'''
    await may_end.wait()
    return "done"

model = ScriptedModel([call("wait"), say("First."), say("Second.")])
runtime = Runtime(path, model=model)
loop = asyncio.new_event_loop()

async def until(moment):
    await runtime.__aenter__()
    session = await runtime.open(Agent("host", tools=[wait]), session_id="s")
    asking = asyncio.create_task(session.ask("Wait."))
    if moment == "a batch is written":
        while runtime._started().writer._task is None:
            await asyncio.sleep(0)
    elif moment == "a tool runs":
        while not may_end._waiters:
            await asyncio.sleep(0.001)
    else:
        may_end.set()
        await asking
    return session, asking

session, asking = loop.run_until_complete(until(moment))
pid = os.fork()
if pid == 0:
    ending = runtime.aclose() if moment != "its writer is closed" else runtime._started().writer.aclose()
    try:
        asyncio.run(asyncio.wait_for(ending, 5))
        print("child returned", flush=True)
    except TimeoutError:
        print("child hangs", flush=True)
    except BaseException as error:
        print("child", type(error).__name__, error, flush=True)
    os._exit(0)
print("status", os.waitpid(pid, 0)[1], flush=True)

async def to_the_end():
    may_end.set()
    print((await asking).text, (await session.ask("Again.")).text)
    await runtime.aclose()

loop.run_until_complete(to_the_end())
loop.close()
"""
MOMENTS = ["nothing runs", "a tool runs", "a batch is written"]


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_closing_a_runtime_in_a_forked_child_returns_at_once(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "log.db"
    done = child(SCRIPT, moment, path)
    assert done.stdout.splitlines() == ["child returned", "status 0", "First. Second."], done.stderr
    assert Recording.open(path, "s").verify().is_ok


@pytest.mark.slow
def test_closing_a_writer_in_a_forked_child_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    done = child(SCRIPT, "its writer is closed", path)
    said, *rest = done.stdout.splitlines()
    assert said.startswith("child StoreLocked this writer belongs to the process"), done.stderr
    assert rest == ["status 0", "First. Second."]
