"""A client of the Claude Agent SDK as a brain: its own process, granted, recorded, resumed, and no longer."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="the client of callboard[claude] is not installed")

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

from callboard.actors.protocol.errors import InvalidAgent, SessionDetached
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import claude_agent
from callboard.replay.recording import Recording
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.agents import turns_in
from tests.runtime.brains.claude_cases import brain, clients, model, noting, options, policy
from tests.runtime.brains.test_pydantic_agent import results

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="/proc and prctl: not on this system")]


def no_note(what: str) -> None:
    """Note nothing."""


def wait_for_no_clients() -> None:
    for _ in range(40):
        if not clients():
            return
        time.sleep(0.05)
    raise AssertionError(f"clients live on: {clients()}")


@pytest.mark.slow
def test_a_client_asks_by_the_session_and_sees_nothing_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "sk-mine")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    seen: list[ModelRequest] = []
    environments: list[bytes] = []

    def answer(request: ModelRequest) -> Any:
        if request.profile == "host":
            return say("done") if turns_in(request) else call("task", agent="expert", prompt="2+3?")
        seen.append(request)
        environments.extend(Path(f"/proc/{one}/environ").read_bytes() for one in clients())
        return policy(request)

    host = Agent("host", agents=[brain(no_note)])
    runtime = Runtime(tmp_path / "log.db", model=ScriptedModel(answer))
    outcome = runtime.run_sync(host, "Go.", session_id="s")
    assert [one.text for one in outcome.delegations if one.profile == "expert"] == ["It is 5."]
    assert [(block[0]["text"], failed) for block, failed in results(seen[1])] == [
        ("5", False),
        ("saved k", False),
    ]
    assert {one.model.max_tokens for one in seen} == {8_192}
    assert all(b"Environment" not in bytes(said) for said in (seen[0].system, *seen[0].messages))
    assert [b"mcp__cb__" in bytes(one) for one in seen[0].tools] == [True, True]  # and none of its own
    assert environments
    assert not any(b"sk-mine" in one or b"PROXY" in one for one in environments)
    with Recording.open(tmp_path / "log.db", "s") as recording:
        assert recording.verify().is_ok
        bodies = [event.body for event in recording.events]
    effects = {body.tool: body.effect for body in bodies if isinstance(body, CallTool)}
    assert effects == {"add": "read", "save": "write"}
    wait_for_no_clients()


@pytest.mark.slow
@pytest.mark.parametrize("point", ["model 0", "save", "model 1"])
def test_a_killed_run_leaves_no_client_and_goes_on_with_what_is_on_disk(tmp_path: Path, point: str) -> None:
    log, path = tmp_path / "log.db", tmp_path / "notes.txt"
    command = [sys.executable, "-m", "tests.runtime.brains.claude_cases", str(log), str(path), point]
    killed = subprocess.run(command, cwd=ROOT, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    wait_for_no_clients()
    note = noting(path)

    async def go_on() -> str:
        async with Runtime(log, model=model(note), strict_spending=True) as runtime:
            session = await runtime.resume("s", brain(note))
            return (await session.outcome).text

    assert asyncio.run(go_on()) == "It is 5."
    deeds = path.read_text().splitlines()
    assert deeds.count("save") == 1
    assert deeds.count("model 0") == 1 + (point == "model 0")
    assert deeds.count("model 1") == 1 + (point == "model 1")
    with Recording.open(log, "s") as recording:
        assert recording.verify().is_ok
        ends = [event.body.status for event in recording.events if isinstance(event.body, ToolReturned)]
    assert ends.count("interrupted") == (point == "save")
    wait_for_no_clients()


@pytest.mark.slow
def test_a_changed_client_is_a_divergence_that_names_the_difference(tmp_path: Path) -> None:
    log, path = tmp_path / "log.db", tmp_path / "notes.txt"
    command = [sys.executable, "-m", "tests.runtime.brains.claude_cases", str(log), str(path), "model 1"]
    subprocess.run(command, cwd=ROOT, timeout=60)
    changed = claude_agent(
        ClaudeAgentOptions(system_prompt="Be long.", mcp_servers=options(no_note).mcp_servers),
        "expert",
        description="Adds.",
        effects={"add": "read"},
    )

    asked: list[str] = []

    async def go_on() -> None:
        async with Runtime(log, model=model(asked.append), strict_spending=True) as runtime:
            await (await runtime.resume("s", changed)).outcome

    with pytest.raises(SessionDetached, match="with another system prompt"):
        asyncio.run(go_on())
    assert asked == []
    wait_for_no_clients()


@pytest.mark.slow
def test_a_refusal_ends_the_client_by_its_kind_and_is_asked_once() -> None:
    asked: list[int] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(turns_in(request))
        return calls(call("mcp__cb__add", a=9, b=1))

    limited = claude_agent(options(no_note), "expert", limits=Limits(max_iterations=5))
    outcome = Runtime(":memory:", model=ScriptedModel(answer)).run_sync(limited, "2+3?")
    assert outcome.kind == "iteration_cap"
    assert len(asked) <= 5
    wait_for_no_clients()


@pytest.mark.slow
def test_a_cancelled_run_leaves_no_client() -> None:
    async def run() -> None:
        started = asyncio.Event()

        async def answer(request: ModelRequest) -> Any:
            started.set()
            await asyncio.sleep(60)

        async with Runtime(":memory:", model=ScriptedModel(answer)) as runtime:
            ask = asyncio.ensure_future(runtime.run(brain(no_note), "2+3?"))
            await started.wait()
            assert clients()
            ask.cancel()
            await asyncio.gather(ask, return_exceptions=True)

    asyncio.run(run())
    wait_for_no_clients()


@tool("add", "Add.", {"a": int})
async def other(given: dict[str, Any]) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tools": ["Bash"]}, "tools"),
        ({"env": {"A": "b"}}, "env"),
        ({"resume": "s"}, "resume"),
        ({"hooks": {"Stop": []}}, "hooks"),
        ({"setting_sources": ["user"]}, "setting_sources"),
        ({"system_prompt": {"type": "preset", "preset": "claude_code"}}, "preset"),
        ({"mcp_servers": {"x": {"type": "stdio", "command": "x"}}}, "outside of this process"),
        ({"mcp_servers": {n: create_sdk_mcp_server(n, tools=[other]) for n in "ab"}}, "two tools"),
        ({"mcp_servers": {"a b": create_sdk_mcp_server("a b", tools=[other])}}, "no model takes"),
        ({"output_format": {"type": "json_schema"}}, "schema"),
    ],
)
def test_options_that_no_log_could_hold_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidAgent, match=words):
        claude_agent(ClaudeAgentOptions(**more), "expert")


def test_objects_of_another_kind_and_unknown_effects_are_refused() -> None:
    with pytest.raises(InvalidAgent, match="not a claude_agent_sdk"):
        claude_agent(3, "expert")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidAgent, match="effects names 'sub'"):
        claude_agent(options(no_note), "expert", effects={"sub": "read"})
    with pytest.raises(InvalidAgent, match="max_tokens"):
        claude_agent(options(no_note), "expert", max_tokens=0)
