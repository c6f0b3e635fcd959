"""Commands that fork, flood, hide, ignore signals or look for secrets, and tools that leave by force.

Real processes; each test looks for survivors.
"""

import asyncio
import os
from pathlib import Path

import pytest

from callboard import Agent, Files, Outcome, Runtime, ScriptedModel, ToolContext, call, say, tool
from callboard.actors.protocol.immutable import Json
from callboard.errors import ToolError
from callboard.runtime.sanitize import to_json
from callboard.runtime.tools.tool import Tool
from callboard.tools.shell import OUTPUT_BYTES_MAX, shell, shell_tool
from tests.runtime.shell.test_process import is_running, unique_seconds
from tests.waiting import block_until, until


def told(root: Path, command: str, seconds: float = 20.0, made: Tool = shell) -> str:
    """Run a command as the tool does. Return its result, or the error."""

    async def main() -> str:
        arguments = Json(to_json({"command": command, "seconds": seconds}))
        try:
            return str(await made.bind(arguments, ToolContext(files=Files(root)))())  # type: ignore[misc]  # an async tool
        except ToolError as error:
            return str(error)

    return asyncio.run(main())


BOMB = """
import os, sys, time
for _ in range(9):  # 512 processes, each in a session of its own
    if os.fork() == 0:
        os.setsid()
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.slow
def test_p1_a_command_that_forks_without_measure_is_ended_with_all_of_it(tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    (tmp_path / "bomb.py").write_text(BOMB)
    limited = shell_tool(processes_max=40, env={"PATH": os.environ["PATH"]})
    assert "more than 40 processes" in told(tmp_path, f"python3 bomb.py {mark}", made=limited)
    assert not is_running(mark)


def test_p2_a_command_that_floods_is_ended_and_its_output_is_cut(tmp_path: Path) -> None:
    text = told(tmp_path, "yes")
    assert "wrote more than 3,000,000 bytes" in text
    assert len(text) < OUTPUT_BYTES_MAX + 200


def test_p3_a_child_in_the_background_holds_nothing_up_and_ends(tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    assert told(tmp_path, f"sleep {mark} & echo started") == "started\n[exit code 0]"
    assert not is_running(mark)


def test_p4_a_child_in_a_session_of_its_own_ends_too(tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    text = told(
        tmp_path,
        f"setsid sh -c 'setsid sleep {mark} & echo $$ > pid; sleep {mark}' & while ! test -s pid; do :; done",
    )
    assert text == "[exit code 0]"
    assert not is_running(mark)


def test_p5_a_command_that_ignores_signals_is_ended(tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    text = told(tmp_path, f"trap '' TERM INT HUP; sleep {mark}; sleep {mark}", seconds=0.2)
    assert "ended after 0.2 s" in text
    assert not is_running(mark)


def test_p6_a_command_finds_no_secret_in_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_CANARY", "sing-little-bird")
    text = told(tmp_path, "env; cat /proc/$$/environ /proc/$PPID/environ")
    assert "PATH=" in text
    assert "sing-little-bird" not in text


@tool(effect="read")
def leave() -> str:
    """Leave the thread by force."""
    raise SystemExit(3)


@tool(effect="read")
def stop() -> str:
    """Raise what nothing should catch."""
    raise BaseException("enough")


@pytest.mark.parametrize("name", ["leave", "stop"])
def test_p7_a_tool_that_leaves_its_thread_ends_its_call_and_nothing_else(name: str) -> None:
    model = ScriptedModel([call(name), lambda request: say(str(request.conversation[-1]["content"]))])
    outcome = Runtime(":memory:", model=model).run_sync(Agent("host", tools=[leave, stop]), "go")
    assert outcome.status == "ok"
    assert "SystemExit" in outcome.text or "enough" in outcome.text


def test_a_command_ends_with_its_agent(tmp_path: Path) -> None:
    mark = unique_seconds(tmp_path)
    model = ScriptedModel([call("shell", command=f"sleep {mark}"), say("never")])

    async def main() -> Outcome:
        async with Runtime(":memory:", model=model, files=tmp_path) as runtime:
            session = await runtime.open(Agent("host", tools=[shell]))
            asking = asyncio.create_task(session.ask("go"))
            await until(lambda: is_running(mark))
            await session.cancel("enough")
            return await asking

    outcome = asyncio.run(main())
    assert outcome.kind == "cancelled"
    block_until(lambda: not is_running(mark))
