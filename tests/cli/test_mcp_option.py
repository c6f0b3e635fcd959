"""`--mcp` of run, chat, resume and fork: the servers of a file, given on the command line."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard import MCPServer, Runtime
from callboard.cli.loading import load_agent
from tests.cli.conftest import Callboard
from tests.runtime.mcp.kit import RAW, calls_of

ECHOING = """
from callboard import Agent, ScriptedModel, call, say

def told(request):
    if request.turn % 2:
        return call("notes_echo", text="hello")
    return say(str(request.conversation[-1]["content"][0]["content"]))

host = Agent("host", model=ScriptedModel(told))
"""


@pytest.fixture
def run(callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callboard]:
    """Run a command on a module whose agent calls a tool of a server in `.mcp.json`, in a log of its own."""
    (tmp_path / "echoing.py").write_text(ECHOING)
    write(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CALLBOARD_LOG", str(tmp_path / "own.db"))
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    yield callboard
    sys.modules.pop("echoing", None)


def write(folder: Path, **more: object) -> None:
    """Write `.mcp.json` with one server."""
    server = {"command": sys.executable, "args": [str(RAW), "${NOTES}"], **more}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"notes": server}}))


def test_a_run_calls_the_tools_of_a_file(run: Callboard, tmp_path: Path) -> None:
    done = run("run", "echoing:host", "Go.", "--quiet", "--mcp", ".mcp.json")
    assert done.exit_code == 0, done.output
    assert '{"text": "hello"}' in done.output
    assert calls_of(tmp_path / "notes") == ["echo"]


def test_a_chat_has_the_same_option(run: Callboard, tmp_path: Path) -> None:
    done = run("chat", "echoing:host", "--mcp", ".mcp.json", text="Go.\n")
    assert done.exit_code == 0, done.output
    assert calls_of(tmp_path / "notes") == ["echo"]


def test_a_resume_takes_the_file_and_refuses_without_it(run: Callboard, tmp_path: Path) -> None:
    async def begin() -> None:
        host = load_agent("echoing:host").with_sources(MCPServer.from_file(tmp_path / ".mcp.json"))
        async with Runtime(tmp_path / "own.db") as runtime:
            session = await runtime.open(host)
            await session.ask("Go.")

    asyncio.run(begin())
    missing = run("resume", "echoing:host")
    assert missing.exit_code != 0
    assert "notes_echo" in missing.output
    done = run("resume", "echoing:host", "--mcp", ".mcp.json")
    assert done.exit_code == 0, done.output


def test_a_call_that_the_file_leaves_to_a_person_is_asked_about(run: Callboard, tmp_path: Path) -> None:
    write(tmp_path, alwaysAllow=["slow"])
    refused = run("run", "echoing:host", "Go.", "--quiet", "--mcp", ".mcp.json", "--approve", "none")
    assert refused.exit_code == 0, refused.output
    assert calls_of(tmp_path / "notes") == []
    allowed = run("run", "echoing:host", "Go.", "--quiet", "--mcp", ".mcp.json", "--approve", "all")
    assert '{"text": "hello"}' in allowed.output


def test_files_that_cannot_work_are_refused_before_anything_is_recorded(
    run: Callboard, tmp_path: Path
) -> None:
    missing = run("run", "echoing:host", "Go.", "--mcp", "mcp.json")
    assert missing.exit_code == 3
    assert "there is no file mcp.json; JSON files in " in missing.output
    assert ".mcp.json" in missing.output
    write(tmp_path, timeout="soon")
    odd = run("run", "echoing:host", "Go.", "--mcp", ".mcp.json")
    assert odd.exit_code == 2
    assert ".mcp.json: server 'notes': timeout is a positive number, not 'soon'" in odd.output
    twice = run("run", "echoing:host", "Go.", "--mcp", ".mcp.json", "--mcp", ".mcp.json")
    assert twice.exit_code == 2
    assert not (tmp_path / "own.db").exists()
