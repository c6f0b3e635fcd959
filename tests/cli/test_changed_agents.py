"""`callboard replay --with` on modules of agents that were changed, as a user has them."""

import asyncio
import json
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import RULES, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolOrigin, ToolSpec
from callboard.cli.changed_agents import with_listed
from callboard.cli.errors import CORRUPT, DIVERGED, FAILED, NOT_FOUND, USAGE
from callboard.cli.offline_process import Described
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.cli.conftest import Callboard
from tests.cli.recorded import ATTACK

MODULE = '''
from callboard import Agent, Limits, program, tool

@tool(effect="read")
def count(folder: str) -> str:
    """Count the files in a folder."""
    raise AssertionError("no tool runs")

counter = Agent("counter", description="Counts.", instructions="You count.", tools=[count])
host = Agent("host", agents=[counter])

@program(tools=[count])
async def walk(ctx, prompt):
    first = await ctx.call(count, folder=prompt)
    return await ctx.call(count, folder=first)
'''


@tool(effect="read")
def count(folder: str) -> str:
    """Count the files in a folder."""
    return f"{folder} has 3"


@program(tools=[count])
async def walk(ctx: ProgramContext, prompt: str) -> str:
    first = str(await ctx.call(count, folder=prompt))
    return str(await ctx.call(count, folder=first))


async def _record(path: Path) -> None:
    counter = Agent("counter", description="Counts.", instructions="You count.", tools=[count])
    model = ScriptedModel(
        {
            "host": [
                calls(
                    call("task", agent="counter", prompt="src"), call("task", agent="counter", prompt="doc")
                ),
                say("Six."),
            ],
            "counter": lambda request: call("count", folder="src") if request.turn == 1 else say("3"),
        }
    )
    async with Runtime(str(path), model=model) as runtime:
        await runtime.run(Agent("host", agents=[counter]), "How many?", session_id="survey")
        await runtime.run(walk, "src", session_id="walk")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("logs") / "callboard.db"
    asyncio.run(_record(path))
    return str(path)


def changed(folder: Path, old: str = "", new: str = "", agent: str = "host") -> str:
    assert old in MODULE
    path = folder / "agents_of_today.py"
    path.write_text(MODULE.replace(old, new) if old else MODULE)
    return f"{path}:{agent}"


def test_the_same_agents_do_the_same(callboard: Callboard, log: str, tmp_path: Path) -> None:
    before = Path(log).read_bytes()
    done = callboard("replay", "survey", "--with", changed(tmp_path), "--strict", "--log", log)
    assert done.exit_code == 0
    assert "every request is as recorded\nevery decision is as recorded" in done.stdout
    assert Path(log).read_bytes() == before


def test_another_prompt_counts_only_if_strict(callboard: Callboard, log: str, tmp_path: Path) -> None:
    spec = changed(tmp_path, "You count.", "You count twice.")
    done = callboard("replay", "survey", "--with", spec, "--log", log)
    assert done.exit_code == 0
    assert "host.1: the request of turn 1 differs" in done.stdout
    assert "  -system: You count.\n  +system: You count twice.\n" in done.stdout
    strict = callboard("replay", "survey", "--with", spec, "--strict", "--log", log, "--json")
    assert strict.exit_code == DIVERGED
    found = json.loads(strict.stdout)
    assert [one["agent"] for one in found["requests"]] == ["host.1", "host.2"]
    assert (found["decisions"], found["same"]) == ([], False)


def test_arguments_that_a_tool_refuses_today_are_a_decision(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    spec = changed(tmp_path, "folder: str", "path: str")
    done = callboard("replay", "survey", "--with", spec, "--log", log)
    assert done.exit_code == DIVERGED
    assert "count refuses it: Invalid arguments for count" in done.stdout
    assert "first decision that differs, of 2 agents of counter alike\n  event " in done.stdout
    assert "the first of other actors" not in done.stdout
    assert "first difference: event " in done.stdout


def test_a_program_that_takes_another_step_is_a_decision(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    same = callboard("replay", "walk", "--with", changed(tmp_path, agent="walk"), "--strict", "--log", log)
    assert same.exit_code == 0, same.stdout
    spec = changed(tmp_path, "folder=first", "folder='doc'", "walk")
    found = json.loads(callboard("replay", "walk", "--with", spec, "--log", log, "--json").stdout)
    with Recording.open(log, "walk") as recording:
        replies = [event.seq for event in recording.events if event.kind == "ModelReplied"]
    (one,) = found["decisions"]
    assert (one["kind"], one["seq"]) == ("program", replies[1])
    assert "src has 3" in one["recorded"]
    assert "doc" in one["now"]


def test_a_program_that_never_ends_is_stopped(callboard: Callboard, log: str, tmp_path: Path) -> None:
    spec = changed(tmp_path, "    first = await", "    while True: pass\n    first = await", "walk")
    done = callboard("replay", "walk", "--with", spec, "--log", log, "--timeout", "0.5")
    assert done.exit_code == FAILED
    assert "did not finish within 0.5 s (--timeout)" in done.stderr


def test_a_module_that_calls_out_or_does_not_load_is_refused(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    calls_out = changed(tmp_path, "from callboard", "import socket; socket.socket()\nfrom callboard")
    done = callboard("replay", "survey", "--with", calls_out, "--log", log)
    assert done.exit_code == FAILED
    assert "without network and subprocesses" in done.stderr
    spawns = changed(
        tmp_path, "from callboard", "import subprocess; subprocess.run(['true'])\nfrom callboard"
    )
    assert callboard("replay", "survey", "--with", spawns, "--log", log).exit_code == FAILED
    gone = callboard("replay", "survey", "--with", "no_such_module:host", "--log", log)
    assert gone.exit_code == NOT_FOUND
    assert "there is no module 'no_such_module'" in gone.stderr
    nameless = callboard("replay", "survey", "--with", "agents", "--log", log)
    assert nameless.exit_code == USAGE


def test_a_damaged_log_is_told_and_hostile_agents_print_nothing_else(
    callboard: Callboard, log: str, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(Path(log).read_bytes().replace(b'"How many?"', b'"How much?"'))
    done = callboard("replay", "survey", "--with", changed(tmp_path), "--log", str(damaged))
    assert done.exit_code == CORRUPT
    hostile = changed(tmp_path, '"You count."', repr(ATTACK) + ' + str(print("{}", flush=True))')
    shown = callboard("replay", "survey", "--with", hostile, "--log", log)
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout
    assert "evil" in shown.stdout


def test_options_that_do_not_go_together_are_refused(callboard: Callboard, log: str) -> None:
    assert callboard("replay", "survey", "--with", "a:b", "--at", "1", "--log", log).exit_code == USAGE
    assert callboard("replay", "survey", "--strict", "--log", log).exit_code == USAGE
    assert callboard("replay", "nothing", "--with", "a:b", "--log", log).exit_code == NOT_FOUND


def test_long_diffs_are_folded(callboard: Callboard, log: str, tmp_path: Path) -> None:
    spec = changed(tmp_path, '"You count."', '"line\\n" * 90')
    folded = callboard("replay", "survey", "--with", spec, "--log", log).stdout
    assert "more lines; --full shows them" in folded
    full = callboard("replay", "survey", "--with", spec, "--full", "--log", log).stdout
    assert full.count("+system: line") == 90
    assert "--full shows them" not in full


def test_tools_that_a_server_lists_are_taken_as_recorded() -> None:
    own = ToolSpec("own", "", Json(b"{}"))
    listed = ToolSpec("far", "", Json(b"{}"), origin=ToolOrigin("server", "far"))
    gone = ToolSpec("gone", "", Json(b"{}"))
    opened = SessionOpened(
        RULES,
        "a",
        tuple(Json(encode(Profile(name, tools=(own, listed, gone)))) for name in ("a", "b")),
        ModelSpec("m"),
    )
    today = tuple(Json(encode(Profile(name, tools=(own,)))) for name in ("a", "b", "c"))
    found = Described("a", today, None, (), ("a", "c"))
    names = [[tool["name"] for tool in json.loads(bytes(one))["tools"]] for one in with_listed(found, opened)]
    assert names == [["own", "far"], ["own"], ["own"]]
