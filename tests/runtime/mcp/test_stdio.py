"""Servers as child processes: every failure says whether the request can have left."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Limits, MCPServer, Reply, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.errors import InvalidAgent
from callboard.log import MemoryLog
from callboard.runtime.mcp import connection
from tests.processes import running
from tests.runtime.mcp.kit import (
    NAME,
    RAW,
    asking,
    calls_of,
    events_of,
    is_alive,
    outputs,
    played,
    raw,
    returned,
)
from tests.waiting import block_until, until


def together(server: MCPServer, *asked: tuple[str, Any], **limits: Any) -> list[tuple[str, Any]]:
    """Return what these calls of one reply came to, in their order."""
    model = ScriptedModel([Reply(calls=[call(name, **given) for name, given in asked]), say("done")])
    found: list[tuple[str, Any]] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        await runtime.run(Agent("host", tools=[server]), "go", session_id=NAME, **limits)
        ended = [one.body for one in await events_of(log) if isinstance(one.body, ToolReturned)]
        by_call = sorted(ended, key=lambda body: body.call)
        found.extend((body.status, json.loads(bytes(body.output))) for body in by_call)

    played(scene, model)
    return found


def test_a_call_reaches_the_server_with_its_arguments_and_comes_back(tmp_path: Path) -> None:
    (found,) = outputs(
        raw(tmp_path / "notes"), ("echo", {"text": "a\nb \u2603", "more": [1, None, {"x": 2.5}]})
    )
    assert found == ("ok", '{"more": [1, null, {"x": 2.5}], "text": "a\\nb \\u2603"}')


def test_a_server_that_dies_in_a_write_call_leaves_it_interrupted_and_starts_again(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    died, went_on = outputs(raw(notes), "die", "echo")
    assert died[0] == "interrupted"
    assert "not known" in died[1]
    assert "the server starts" in died[1]  # its stderr
    assert went_on == ("ok", "{}")
    assert calls_of(notes) == ["die", "echo"]


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_call_that_may_be_repeated_is_sent_once_more(tmp_path: Path, effect: str) -> None:
    notes = tmp_path / "notes"
    server = raw(notes, "die_once", effects={"die": effect})
    assert outputs(server, "die") == [("ok", "{}")]
    assert calls_of(notes) == ["die", "die"]


def test_a_call_that_is_lost_twice_is_an_error(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    ((status, text),) = outputs(raw(notes, effects={"die": "read"}), "die")
    assert (status, calls_of(notes)) == ("error", ["die", "die"])
    assert "lost during the call, twice" in text


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_error_without_an_id_is_the_answer_to_the_only_call(tmp_path: Path, effect: str) -> None:
    notes = tmp_path / "notes"
    first, second = outputs(raw(notes, effects={"broken": effect}), "broken", "echo")
    assert first == ("error", "MCP server 'python raw_server.py' answered with an error: I cannot read that")
    assert second == ("ok", "{}")
    assert calls_of(notes) == ["broken", "echo"]


def test_of_several_calls_an_error_without_an_id_is_for_the_one_that_gets_no_other_answer(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "notes"
    found = together(raw(notes), ("broken", {}), ("echo", {}), ("echo", {"n": 2}))
    assert [status for status, _ in found] == ["error", "ok", "ok"]
    assert "I cannot read that" in found[0][1]


def test_a_call_in_doubt_ends_with_its_time_and_tells_of_the_error_without_an_id(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    found = together(raw(notes), ("broken", {}), ("slow", {}), limits=Limits(tool_timeout_s=0.3))
    assert [status for status, _ in found] == ["interrupted", "interrupted"]
    for _, said in found:
        assert "an error that names no request: I cannot read that; whether" in said


@pytest.mark.parametrize("name", ["junk", "slow"])
def test_a_write_without_an_answer_in_time_is_interrupted_and_the_server_sees_the_cancel(
    tmp_path: Path, name: str
) -> None:
    notes = tmp_path / "notes"
    first, second = outputs(raw(notes), name, "echo", limits=Limits(tool_timeout_s=1))
    assert first[0] == "interrupted"
    assert "timed out after 1 s" in first[1]
    assert second == ("ok", "{}")
    assert calls_of(notes) == [name, "cancelled", "echo"]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_answer_that_is_no_result_is_an_error_and_not_sent_again(tmp_path: Path, effect: str) -> None:
    notes = tmp_path / "notes"
    ((status, text),) = outputs(raw(notes, effects={"wrong": effect}), "wrong")
    assert (status, calls_of(notes)) == ("error", ["wrong"])
    assert 'the content of its result is not a list: "no list"' in text


def test_a_second_answer_and_a_late_one_reach_no_other_call(tmp_path: Path) -> None:
    server = raw(tmp_path / "notes", effects={"*": "read"})
    asked = ["twice", "echo", "late", ("echo", {"text": "mine"})]
    found = outputs(server, *asked, limits=Limits(tool_timeout_s=0.3))
    assert found[:2] == [("ok", "first"), ("ok", "{}")]
    assert found[2][0] == "error"
    assert found[3] == ("ok", '{"text": "mine"}')


def test_a_server_that_prints_on_stdout_works(tmp_path: Path) -> None:
    assert outputs(raw(tmp_path / "notes", "noise"), "echo") == [("ok", "{}")]


def refused(server: MCPServer) -> str:
    """Return the words with which a session with this server is refused."""

    async def main() -> str:
        async with Runtime(MemoryLog(), model=asking()) as runtime:
            with pytest.raises(InvalidAgent) as caught:
                await runtime.open(Agent("host", tools=[server]))
            return str(caught.value)

    return asyncio.run(main())


def test_a_server_that_does_not_start_is_refused_with_its_last_words(tmp_path: Path) -> None:
    broken = MCPServer([sys.executable, "-c", "import sys; sys.exit('no configuration')"])
    assert "no configuration" in refused(broken)
    assert "there is no program 'no-such-program'" in refused(MCPServer(["no-such-program"]))
    mute = refused(raw(tmp_path / "notes", "mute", start_timeout_s=0.5))
    assert "did not answer within 0.5 s" in mute
    assert "the server starts" in mute


def test_lists_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    assert "lists 10,000 tools, and an agent takes at most 2,000" in refused(raw(notes, "many"))
    assert "two different tools named 'echo'" in refused(raw(notes, "twins"))
    assert "has no tool for the agent" in refused(raw(notes, tools=[]))
    assert "effects= names 'ecko', and it lists echo" in refused(raw(notes, effects={"ecko": "read"}))


def test_a_list_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each of its pages has one tool, so 20,000 of them would take seconds.
    monkeypatch.setattr(connection, "TOOLS_LISTED_MAX", 500)
    assert "does not end: it has more than 500 tools" in refused(raw(tmp_path / "notes", "endless"))


def test_a_long_list_can_be_narrowed(tmp_path: Path) -> None:
    assert outputs(raw(tmp_path / "notes", "many", tools=["tool9999"]), "tool9999") == [("ok", "{}")]


def test_a_list_that_changes_at_every_look_lets_no_call_through(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    server = raw(notes, "changing")

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        session = await runtime.open(Agent("host", tools=[server]), session_id=NAME)
        pid = int(notes.with_suffix(".pid").read_text())
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_alive(pid))
        await asyncio.sleep(0.05)  # else the call may still be written, and would be interrupted
        await session.ask("go")
        ((status, text),) = await returned(log)
        assert status == "error"
        assert "changed" in text
        assert "Look again" in text

    played(scene, asking("echo"))
    assert calls_of(notes) == []


def test_a_server_ends_with_its_session(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    pids: list[int] = []

    async def scene(runtime: Runtime, log: MemoryLog) -> None:
        async with runtime.open(Agent("host", tools=[raw(notes)])):
            pids.append(int(notes.with_suffix(".pid").read_text()))
            assert is_alive(pids[0])
        await until(lambda: not is_alive(pids[0]))

    played(scene, asking())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="this system has no parent-death signal")
def test_a_server_that_ignores_its_stdin_ends_with_a_killed_runtime(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    script = f"""
import asyncio, sys
from pathlib import Path
from callboard import Agent, MCPServer, Runtime, ScriptedModel, say
from callboard.log import MemoryLog
async def main():
    server = MCPServer([sys.executable, {str(RAW)!r}, {str(notes)!r}, "stubborn"])
    async with Runtime(MemoryLog(), model=ScriptedModel([say("x")])) as runtime:
        await runtime.open(Agent("host", tools=[server]))
        print("open", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    with running([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "open\n"
        pid = int(notes.with_suffix(".pid").read_text())
        assert is_alive(pid)
        process.kill()
    block_until(lambda: not is_alive(pid))


def test_a_server_has_few_variables_of_this_process_and_those_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-servers")
    code = "import os, sys; sys.exit(repr(sorted(os.environ)))"
    said = refused(MCPServer([sys.executable, "-c", code], env={"GIVEN": "1"}))
    assert "GIVEN" in said
    assert "PATH" in said
    assert "SOME_API_KEY" not in said
