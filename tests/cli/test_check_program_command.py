"""`callboard check-program` on sessions that a program recorded: one that goes on, and one that ended."""

import asyncio
import json
import sqlite3
from hashlib import blake2b
from pathlib import Path

import pytest

from callboard import Agent, ProgramContext, Runtime, ScriptedModel, call, program, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool
from callboard.cli import offline_process
from callboard.cli.check_program_command import recorded_programs
from callboard.cli.errors import DIVERGED, FAILED, NOT_FOUND, USAGE
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.programs.checking import RecordedAgent, check_run
from tests.cli.conftest import Callboard

HEAD = """
import asyncio, subprocess, time
from callboard import program, tool

@tool(effect="read")
def price(item: str) -> int:
    '''Return the price.'''
    raise AssertionError("no tool runs")

@tool(effect="read")
def wait() -> str:
    '''Wait.'''
    raise AssertionError("no tool runs")

print("the module is loaded")
"""
SAME = """
@program(tools=[price, wait])
async def shop(ctx, prompt):
    first = await ctx.call(price, item=prompt)
    if ctx.since("fee"):
        await ctx.call(price, item="fee")
    await ctx.call(wait)
    return first
"""
CHANGED = """
@program(tools=[price, wait])
async def shop(ctx, prompt):
    first = await ctx.call(price, item=prompt)
    await ctx.call(price, item="fee")
    return await ctx.call(wait)
"""


def module(folder: Path, text: str) -> str:
    # A name of its own: Python would take an edited module's compiled file for its own.
    name = f"shop_{blake2b(text.encode(), digest_size=4).hexdigest()}.py"
    (folder / name).write_text(HEAD + text)
    return f"{folder / name}:shop"


@tool(effect="read")
def price(item: str) -> int:
    """Return the price."""
    return len(item)


@tool(effect="read")
async def wait() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "late"


@program(tools=[price, wait])
async def shop(ctx: ProgramContext, prompt: str) -> int:
    first = await ctx.call(price, item=prompt)
    if prompt != "quick":
        await ctx.call(wait)
    return first


async def record(path: Path) -> None:
    async with Runtime(str(path), model=ScriptedModel([])) as runtime:
        await runtime.run(shop, "quick", session_id="ended")
        session = await runtime.open(shop, session_id="unfinished")
        asking = asyncio.create_task(session.ask("pen"))
        async for event in session.events():
            if isinstance(event.body, CallTool) and event.body.tool == "wait":
                break
    await asyncio.gather(asking, return_exceptions=True)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "shop.db"
    asyncio.run(record(path))
    return str(path)


def test_an_unchanged_program_repeats_each_step(callboard: Callboard, log: str, tmp_path: Path) -> None:
    done = callboard("check-program", "--unfinished", "--with", module(tmp_path, SAME), "--log", log)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "SESSION     STATUS      RESULT\nunfinished  unfinished  ok\n"
    assert "1 session checked, none differs" in done.stderr


def test_a_changed_program_is_found_with_step_and_both_sides(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    before = Path(log).read_bytes()
    spec = module(tmp_path, CHANGED)
    done = callboard("check-program", "unfinished", "--with", spec, "--log", log, "--json")
    assert done.exit_code == DIVERGED, done.stderr
    found = json.loads(done.stdout)
    assert (found["session"], found["result"]) == ("unfinished", "diverged")
    (run,) = found["runs"]
    assert (run["address"], run["step"]) == ("host", 2)
    assert run["recorded"] == "asked wait({})"
    assert run["now"] == 'asked price({"item":"fee"})'
    assert Path(log).read_bytes() == before


def test_all_sessions_are_listed_with_the_place_and_both_sides(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    done = callboard("check-program", "--all", "--with", module(tmp_path, CHANGED), "--log", log)
    assert done.exit_code == DIVERGED
    table, *both = done.stdout.split("\n\n")
    assert table.splitlines() == [
        "SESSION     STATUS      RESULT",
        "unfinished  unfinished  differs at step 2 (host: shop)",
        "ended       closed      differs at step 2 (host: shop)",
    ]
    assert both[0] == (
        "session unfinished: diverged\n"
        "  first difference: event 9: host decides differently: "
        'recorded: asked wait({}); now: asked price({"item":"fee"})\n'
        '  host (shop): step 2 differs; recorded: asked wait({}); now: asked price({"item":"fee"})'
    )
    assert "2 sessions checked, 2 differ" in done.stderr


def test_the_sessions_of_another_host_are_left_out(callboard: Callboard, log: str, tmp_path: Path) -> None:
    text = "@program\nasync def other(ctx, prompt):\n    return ''\nshop = other\n"
    done = callboard("check-program", "--all", "--with", module(tmp_path, text), "--log", log)
    assert done.exit_code == 0
    assert "unfinished  unfinished  not checkable (its host is shop)" in done.stdout
    assert "0 sessions checked, none differs; 2 could not be checked" in done.stderr


def test_a_session_that_cannot_be_read_does_not_keep_the_others_from_their_check(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.db"
    with sqlite3.connect(log) as source, sqlite3.connect(broken) as copy:
        source.backup(copy)
        copy.execute(
            "UPDATE events SET body = '{' WHERE id = "
            "((SELECT id FROM sessions WHERE session_id = 'ended') << 32) | 3"
        )
    done = callboard(
        "check-program", "--all", "--with", module(tmp_path, SAME), "--log", str(broken), "--json"
    )
    assert done.exit_code == FAILED, done.stdout
    found = {one["session"]: one for one in json.loads(done.stdout)["sessions"]}
    assert found["unfinished"]["result"] == "ok"
    assert found["ended"]["result"] == "unreadable"
    assert found["ended"]["error"]


def test_an_ended_session_can_be_checked_by_its_id(callboard: Callboard, log: str, tmp_path: Path) -> None:
    done = callboard("check-program", "ended", "--with", module(tmp_path, CHANGED), "--log", log)
    assert done.exit_code == DIVERGED
    assert "step 2 differs; recorded: returned '5'" in done.stdout or "asked nothing else" in done.stdout


def test_a_program_that_exits_now_is_named_with_its_step(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    text = SAME.replace("await ctx.call(wait)", "raise SystemExit(7)")
    done = callboard("check-program", "unfinished", "--with", module(tmp_path, text), "--log", log)
    assert done.exit_code == DIVERGED, done.stderr
    assert "step 2 differs; recorded: asked wait({}); now: raised SystemExit: 7" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "named"),
    [
        ("__import__('socket').create_connection(('127.0.0.1', 9))", "socket."),
        ("subprocess.run(['true'])", "subprocess.Popen"),
    ],
)
def test_a_program_reaches_no_network_and_no_subprocess(
    callboard: Callboard, log: str, tmp_path: Path, act: str, named: str
) -> None:
    text = f"""
@program(tools=[price, wait])
async def shop(ctx, prompt):
    {act}
"""
    done = callboard("check-program", "unfinished", "--with", module(tmp_path, text), "--log", log)
    assert done.exit_code == DIVERGED
    assert f"now: crashed: PermissionError: {named}" in done.stdout


@pytest.mark.slow
def test_a_program_that_blocks_is_stopped_and_the_next_session_is_checked(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    text = """
@program(tools=[price, wait])
async def shop(ctx, prompt):
    if prompt != "quick":
        time.sleep(60)
    return await ctx.call(price, item=prompt)
"""
    spec = module(tmp_path, text)
    done = callboard("check-program", "unfinished", "--with", spec, "--timeout", "0.3", "--log", log)
    assert done.exit_code == FAILED
    assert done.stdout == "session unfinished: not done within 0.3 s (--timeout)\n"


def test_a_program_that_is_gone_is_named(callboard: Callboard, log: str, tmp_path: Path) -> None:
    text = "@program\nasync def other(ctx, prompt):\n    return ''\nshop = other\n"
    done = callboard("check-program", "unfinished", "--with", module(tmp_path, text), "--log", log)
    assert done.exit_code == DIVERGED
    assert "host (shop): there is no program 'shop' any more" in done.stdout


def test_a_wrong_set_up_is_refused(callboard: Callboard, log: str, tmp_path: Path) -> None:
    spec = module(tmp_path, SAME)
    assert callboard("check-program", "x", "--unfinished", "--with", spec, "--log", log).exit_code == USAGE
    both = callboard("check-program", "--all", "--unfinished", "--with", spec, "--log", log)
    assert both.exit_code == USAGE
    gone = callboard("check-program", "unfinished", "--with", "no_such_module:shop", "--log", log)
    assert gone.exit_code == NOT_FOUND
    assert "there is no module 'no_such_module'" in gone.stderr


def test_acts_are_refused_by_their_audit_event() -> None:
    for event in ("socket.__new__", "subprocess.Popen", "os.system", "os.fork"):
        with pytest.raises(PermissionError, match="in tools only"):
            offline_process.refuse_acts(event, ())
    offline_process.refuse_acts("open", ("a.txt", "r", 0))


def test_a_session_that_waits_for_its_code_is_listed_until_it_is_given_up(
    callboard: Callboard, tmp_path: Path
) -> None:
    log = str(tmp_path / "shop.db")
    asyncio.run(record(tmp_path / "shop.db"))
    spec = module(tmp_path, CHANGED)
    done = callboard("resume", "unfinished", spec, "--log", log, "--accept-changes")
    assert done.exit_code == DIVERGED, done.stderr
    assert "step 2 is not as recorded" in done.stderr
    listed = json.loads(callboard("sessions", "--log", log, "--json").stdout)["sessions"]
    assert [one["session"] for one in listed if one["waits_for_code"]] == ["unfinished"]
    assert "waits for its code" in callboard("sessions", "--log", log).stdout
    done = callboard("resume", "unfinished", spec, "--log", log, "--accept-changes", "--on-diverged", "crash")
    assert done.exit_code == FAILED
    assert "waits for its code" not in callboard("sessions", "--log", log).stdout


@tool(effect="read")
def look(n: int) -> int:
    """Look."""
    return n


@program(tools=[look])
async def sub(ctx: ProgramContext, prompt: str) -> str:
    first = await ctx.call(look, n=1)
    return f"{first}{await ctx.call(look, n=2)}"


@program(name="sub", tools=[look])
async def longer(ctx: ProgramContext, prompt: str) -> str:
    first = await ctx.call(look, n=1)
    return f"{first}{await ctx.call(look, n=2)}!"


@program(name="sub", tools=[look])
async def other(ctx: ProgramContext, prompt: str) -> str:
    return str(await ctx.call(look, n=3))


def recorded(then: Agent) -> Recording:
    """Record a session whose model delegates twice to a program and answers."""

    def answer(request: object) -> object:
        turn = getattr(request, "turn")  # noqa: B009  # a request of any model
        return call("task", agent="sub", prompt=f"part {turn}") if turn < 3 else say("done")

    log = MemoryLog()

    async def scene() -> None:
        host = Agent("host", agents=[then], model=ScriptedModel(answer))  # type: ignore[arg-type]  # of a form of its own, as in a log
        async with Runtime(log) as runtime:
            await runtime.run(host, "go", session_id="s")

    asyncio.run(scene())
    return Recording.open(MemoryReader(log), "s")


def test_sub_agents_of_a_finished_session_are_found_with_their_last_run() -> None:
    found = recorded_programs(recorded(sub))
    assert [(one.address, one.program) for one in found] == [("host.1", "sub"), ("host.2", "sub")]
    checks = [check_run(sub, one.program, one.address, one.messages) for one in found]
    assert [(one.result, one.steps) for one in checks] == [("ok", 3), ("ok", 3)]


@pytest.mark.parametrize(("now", "step"), [(longer, 3), (other, 1)])
def test_a_change_of_an_ended_sub_agent_is_found_also_in_what_it_returned(now: object, step: int) -> None:
    one, _ = recorded_programs(recorded(sub))
    check = check_run(now, one.program, one.address, one.messages)  # type: ignore[arg-type]  # of a form of its own, as in a log
    assert (check.result, check.step) == ("diverged", step)


def test_a_session_without_a_running_program_has_none_that_runs() -> None:
    assert recorded_programs(recorded(sub), only_running=True) == []


def test_a_recorded_agent_holds_its_conversation() -> None:
    one: RecordedAgent = recorded_programs(recorded(sub))[0]
    assert one.messages[0] == Json(b'{"role":"user","content":"part 1"}')
