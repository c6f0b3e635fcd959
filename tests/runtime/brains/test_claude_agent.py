"""A client of the Claude Agent SDK as a brain: its own process, granted, recorded, resumed, and no longer."""

import asyncio
import gc
import json
import runpy
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("claude_agent_sdk", reason="the client of callboard[claude] is not installed")

import mcp
from claude_agent_sdk import ClaudeAgentOptions, ResultError, ResultMessage, create_sdk_mcp_server, tool

from callboard.actors.protocol.errors import InvalidAgent, ToolError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.request import ModelRequest
from callboard.brains import as_function, claude_agent
from callboard.runtime.agent import Agent
from callboard.runtime.brains import claude_model
from callboard.runtime.brains.claude_gateway import ClientGateway
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.programs.asks import Answer
from callboard.runtime.programs.kept_requests import Written
from callboard.runtime.runtime import Runtime
from callboard.testing import simulate
from tests.pages import blocks
from tests.runtime.brains.claude_cases import brain, options
from tests.runtime.brains.kit import FRAMEWORKS, clients, results, turns_in, wait_for_no_clients

ROOT = Path(__file__).parents[3]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="/proc and prctl: not on this system"),
    # A run that is given up leaves a stream of the SDK to the garbage collection.
    pytest.mark.filterwarnings("ignore:.*(MemoryObject|Subprocess):pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*MemoryObject.*:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let clients of other tests be told from those of this one, and leave no stream to the next test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    gc.collect()


def no_note(what: str) -> None:
    """Note nothing."""


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
        environments.extend(Path(f"/proc/{one}/environ").read_bytes() for one in clients(tmp_path))
        return FRAMEWORKS["claude"].policy(request)

    host = Agent("host", agents=[brain(no_note)])
    outcome = Runtime(":memory:", model=ScriptedModel(answer)).run_sync(host, "Go.")
    assert [one.text for one in outcome.delegations if one.profile == "expert"] == ["5"]
    assert [str(content) for content, _ in results(seen[1])] == [
        "[{'type': 'text', 'text': '5'}]",
        "[{'type': 'text', 'text': 'saved k'}]",
    ]
    assert {one.model.max_tokens for one in seen} == {8_192}
    assert all(b"Environment" not in bytes(said) for said in (seen[0].system, *seen[0].messages))
    assert [b"mcp__cb__" in bytes(one) for one in seen[0].tools] == [True, True]  # and none of its own
    assert environments
    assert not any(b"sk-mine" in one or b"PROXY" in one for one in environments)
    wait_for_no_clients(tmp_path)


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "claude_agent.py"), run_name="__main__")
    page = (ROOT / "docs" / "examples" / "claude-agent.md").read_text()
    (shown,) = (block.text for block in blocks(page) if block.language == "text")
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.slow
def test_the_page_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "claude-agent.md").read_text()
    (shown,) = (block.text for block in blocks(page) if block.language == "python")
    exec(compile(shown, "claude-agent.md", "exec"), {})
    assert capsys.readouterr().out == "It is 5.\n"


@pytest.mark.slow
def test_a_refusal_ends_the_client_by_its_kind_and_no_reminder_of_its_own_is_asked(
    tmp_path: Path,
) -> None:
    asked: list[list[str]] = []

    def answer(request: ModelRequest) -> Any:
        asked.append([block["type"] for said in request.conversation[1:] for block in said["content"]])
        return calls(call("mcp__cb__add", a=9, b=1))

    limited = claude_agent(options(no_note), "expert", limits=Limits(max_iterations=7))
    outcome = Runtime(":memory:", model=ScriptedModel(answer)).run_sync(limited, "2+3?")
    assert outcome.kind == "iteration_cap"
    assert asked == [["tool_use", "tool_result"] * turn for turn in range(7)]
    wait_for_no_clients(tmp_path)


FORM = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}


@pytest.mark.slow
def test_the_stand_in_of_a_simulation_asks_what_the_client_asks() -> None:
    form = {"type": "json_schema", "schema": FORM}
    one = claude_agent(options(no_note, output_format=form, allowed_tools=["mcp__cb__add"]), "expert")
    steps = [
        calls(
            call("mcp__cb__add", a=2, b=3),
            call("mcp__cb__add", a=9, b=1),
            call("mcp__cb__save", key="not allowed"),
            call("sub", a=1),
        ),
        say("It is 5."),
        call("StructuredOutput", sum="five"),
        call("StructuredOutput", sum=5),
    ]
    asked: dict[str, list[Any]] = {"live": [], "simulated": []}

    def answers(place: str) -> Any:
        def answer(request: ModelRequest) -> Any:
            asked[place].append(
                [json.loads(bytes(part)) for part in (request.system, *request.tools, *request.messages)]
            )
            return steps[turns_in(request)]

        return answer

    live = Runtime(":memory:", model=ScriptedModel(answers("live"))).run_sync(one, "2+3?")
    simulated = simulate(one, answers("simulated"), "2+3?", tools={"add": added}).outcome
    assert (live.kind, live.text) == (simulated.kind, simulated.text) == ("reported", '{"sum":5}')
    told = [requests[-1].pop()["content"][0].pop("content") for requests in asked.values()]
    assert all(text.startswith("Output does not match required schema: /sum: ") for text in told)
    assert [one[:-1] for one in asked["live"]] == [one[:-1] for one in asked["simulated"]]
    assert asked["live"][:-1] == asked["simulated"][:-1]


def added(a: int, b: int) -> str:
    if a == 9:
        raise ToolError("no nines")
    return str(a + b)


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("error_max_turns", "iteration_cap"),
        ("error_max_structured_output_retries", "no_report"),
        ("error_during_execution", "failed"),
    ],
)
def test_an_end_that_the_client_tells_has_its_kind_although_the_sdk_raises(
    subtype: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def query(**given: Any) -> AsyncIterator[Any]:
        yield ResultMessage(subtype, 0, 0, is_error=True, num_turns=1, session_id="c")
        raise ResultError("Claude Code returned an error result", {"subtype": subtype})

    monkeypatch.setattr(claude_model, "query", query)
    outcome = Runtime(":memory:", model=ScriptedModel([])).run_sync(brain(no_note), "2+3?")
    assert (outcome.kind, outcome.detail) == (kind, f"the Claude client ended as {subtype}: {subtype}")


def test_the_stand_in_ends_as_the_client_does() -> None:
    def report(request: ModelRequest) -> Any:
        return call("StructuredOutput", sum=f"no {turns_in(request)}")

    form = {"type": "json_schema", "schema": FORM}
    never = simulate(claude_agent(options(no_note, output_format=form), "expert"), report, "2+3?").outcome
    assert (never.kind, never.usage.calls) == ("no_report", 5)
    few = claude_agent(options(no_note, max_turns=2, disallowed_tools=["mcp__cb__save"]), "expert")
    again = simulate(few, lambda request: call("mcp__cb__save", key=str(request.turn)), "2+3?")
    assert (again.outcome.kind, again.outcome.usage.calls) == ("iteration_cap", 2)
    assert not [event for event in again.events if isinstance(event.body, CallTool)]


@pytest.mark.slow
def test_a_cancelled_run_leaves_no_client(tmp_path: Path) -> None:
    async def run() -> None:
        started = asyncio.Event()

        async def answer(request: ModelRequest) -> Any:
            started.set()
            await asyncio.sleep(60)

        async with Runtime(":memory:", model=ScriptedModel(answer)) as runtime:
            ask = asyncio.ensure_future(runtime.run(brain(no_note), "2+3?"))
            await started.wait()
            assert clients(tmp_path)
            ask.cancel()
            await asyncio.gather(ask, return_exceptions=True)

    asyncio.run(run())
    wait_for_no_clients(tmp_path)


async def answer_of(gateway: ClientGateway, head: str, body: bytes = b"{}") -> str:
    url = await gateway.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    told = f"{head} HTTP/1.1\r\nx-api-key: mine\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(told.encode() + body)
    writer.write_eof()
    found = (await reader.read()).decode()
    writer.close()
    await gateway.aclose()
    return found


def test_a_refusal_is_a_403_that_is_not_to_be_tried_again() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    text = b'"no tokens are left"'

    async def refused(request: Written) -> Answer:
        return Answer("p1", Json(text), is_error=True, status="budget")

    def asked(head: str, token: str = "mine", body: bytes = body) -> str:
        return asyncio.run(answer_of(ClientGateway(token, refused), head, body))

    found = asked("POST /v1/messages?beta=true")
    assert found.startswith("HTTP/1.1 403")
    assert "x-should-retry: false" in found
    assert "no tokens are left" in found
    assert asked("POST /v1/messages/count_tokens").startswith("HTTP/1.1 404")
    for token in ("theirs", "g\xfcltig"):
        assert "of another run" in asked("POST /v1/messages", token=token)
    assert asked("POST /v1/messages", body=b"[]").startswith("HTTP/1.1 403")
    assert asked("POST /v1/messages", body=b'{"messages": 3}').startswith("HTTP/1.1 403")


def test_a_host_is_a_tool_of_a_client_by_as_function() -> None:
    oracle = Runtime(":memory:", model=ScriptedModel(["Forty-two."]))
    ask = as_function(oracle, Agent("oracle"))

    @tool("ask", "Ask the oracle.", {"prompt": str})
    async def tell(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": (await ask(given["prompt"]))["text"]}]}

    async def called() -> str:
        async with oracle, mcp.Client(create_sdk_mcp_server("o", tools=[tell])["instance"]) as client:
            return str((await client.call_tool("ask", {"prompt": "?"})).content[0])

    assert "Forty-two." in asyncio.run(called())


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
        claude_agent(cast(Any, 3), "expert")
    with pytest.raises(InvalidAgent, match="effects names 'sub'"):
        claude_agent(options(no_note), "expert", effects={"sub": "read"})
    with pytest.raises(InvalidAgent, match="max_tokens"):
        claude_agent(options(no_note), "expert", max_tokens=0)
