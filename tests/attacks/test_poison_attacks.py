"""Poison: deciders, tools and models that end the process, eat its memory, hang, or never stop talking.

In each case the session comes to an outcome, or it stops with a log that verifies and that the next process
continues.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from callboard import (
    Agent,
    AnthropicModel,
    Limits,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol.messages import AgentInput, DeciderFailed, Finished
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.session import step as step_module
from callboard.errors import SessionFailed
from callboard.replay.recording import Recording
from callboard.runtime.models import watched
from callboard.runtime.models.scripted import Policy, Step
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.tools.execution import ToolRunner
from tests.poison import poison_supervisor
from tests.processes import ENDS_WITHIN_S, import_path, running
from tests.waiting import block_until

ROOT = Path(__file__).parent.parent.parent


def recording(path: Path, session_id: str = "one") -> Recording:
    """Open the recording of the session and check that it verifies."""
    found = Recording.open(path, session_id)
    verified = found.verify()
    assert verified.is_ok, "\n".join(verified.lines())
    return found


def run(path: Path, host: Agent, model: ScriptedModel, limits: Limits | None = None) -> Outcome:
    runtime = Runtime(path, model=model, limits=limits, durability="process")
    return runtime.run_sync(host, "go", session_id="one")


def resumed(path: Path, host: Agent, model: ScriptedModel) -> Outcome | None:
    """Resume the session in a new runtime and return its outcome."""

    async def main() -> Outcome | None:
        async with Runtime(path, model=model, durability="process") as runtime:
            session = await runtime.resume("one", host)
            outcome = await session.outcome
            await session.close()
            return outcome

    outcome = asyncio.run(asyncio.wait_for(main(), 10))
    recording(path)
    return outcome


# --- tools ------------------------------------------------------------------------------------------------


@tool(effect="read")
async def leave_async(how: str) -> str:
    """Raise an error of this kind."""
    await asyncio.sleep(0)
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "memory": MemoryError()}[how]


@tool(effect="read")
def leave_sync(how: str) -> str:
    """Raise an error of this kind."""
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "memory": MemoryError()}[how]


@tool(effect="read")
def recurse() -> str:
    """Call itself until the stack is full."""

    def down(depth: int) -> int:
        return down(depth + 1) + 1

    return str(down(0))


def test_a_tool_that_wants_to_end_the_process_ends_only_its_call(tmp_path: Path) -> None:
    made = [
        call("leave_async", how="exit"),
        call("leave_async", how="memory"),
        call("leave_sync", how="exit"),
        call("leave_sync", how="interrupt"),
        call("leave_sync", how="memory"),
        call("recurse"),
    ]
    host = Agent("host", tools=[leave_async, leave_sync, recurse])
    outcome = run(tmp_path / "log.db", host, ScriptedModel([calls(*made), say("still here")]))
    assert outcome.text == "still here"
    answers = [e.body for e in recording(tmp_path / "log.db").events if isinstance(e.body, ToolReturned)]
    assert sorted(bytes(answer.output).decode().split(":")[0].strip('"') for answer in answers) == [
        "KeyboardInterrupt", "MemoryError", "MemoryError", "RecursionError", "SystemExit", "SystemExit",
    ]  # fmt: skip


def test_ctrl_c_inside_an_async_tool_ends_the_program_and_leaves_a_log_that_verifies(tmp_path: Path) -> None:
    host = Agent("host", tools=[leave_async])
    model = ScriptedModel([call("leave_async", how="interrupt"), say("after all")])
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "log.db", host, model)
    events = recording(tmp_path / "log.db").events
    assert not [event for event in events if isinstance(event.body, DeciderFailed)]


def _hangs() -> Iterator[Agent]:
    @tool(effect="read")
    async def hang() -> str:
        """Wait without end."""
        await asyncio.Event().wait()
        return "never"

    yield Agent("host", tools=[hang])
    released = threading.Event()

    @tool(effect="read", name="hang")
    def hang_on_a_thread() -> str:
        """Wait without end."""
        released.wait(5)
        return "too late"

    yield Agent("host", tools=[hang_on_a_thread])
    released.set()


def test_a_tool_that_hangs_is_timed_out_and_the_session_goes_on(tmp_path: Path) -> None:
    for number, host in enumerate(_hangs()):
        path = tmp_path / f"{number}.db"
        model = ScriptedModel([call("hang"), say("went on")])
        assert run(path, host, model, Limits(tool_timeout_s=0.02)).text == "went on"
        (answer,) = [e.body for e in recording(path).events if isinstance(e.body, ToolReturned)]
        assert b"timed out after 0.02 s" in bytes(answer.output)


def test_a_tool_that_ignores_being_cancelled_does_not_hold_the_outcome(tmp_path: Path) -> None:
    started, released = asyncio.Event(), [False]

    @tool
    async def stubborn() -> str:
        """Wait, and ignore every cancellation."""
        started.set()
        while not released[0]:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return "at last"

    async def main() -> Outcome | None:
        model = ScriptedModel([call("stubborn"), say("x")])
        async with Runtime(tmp_path / "log.db", model=model, durability="process") as runtime:
            runtime._started().tools = ToolRunner(grace_s=0.02)
            session = await runtime.open(Agent("host", tools=[stubborn]), session_id="one")
            asking = asyncio.create_task(session.ask("go"))
            await started.wait()
            outcome = await session.cancel("enough")
            released[0] = True
            assert await asking == outcome
            return outcome

    outcome = asyncio.run(asyncio.wait_for(main(), 5))
    assert outcome is not None
    assert outcome.kind == "cancelled"
    (answer,) = [e.body for e in recording(tmp_path / "log.db").events if isinstance(e.body, ToolReturned)]
    assert answer.status == "interrupted"


# --- floods -----------------------------------------------------------------------------------------------


def test_d12_of_a_gibibyte_that_a_tool_would_stream_only_the_beginning_is_drawn() -> None:
    drawn = itertools.count()

    @tool(effect="read")
    def stream() -> object:
        """Stream a gibibyte."""
        return ("x" * 2**20 for _ in itertools.takewhile(lambda n: n < 1_024, drawn))

    model = ScriptedModel([call("stream"), say("done")])
    outcome = Runtime(":memory:", model=model).run_sync(Agent("host", tools=[stream]), "go")
    assert outcome.text == "done"
    assert next(drawn) < 32


@pytest.mark.slow
@pytest.mark.parametrize("where", ["on a thread", "on the loop"])
def test_d12_a_flood_of_progress_takes_bounded_memory_and_the_newest_is_shown(where: str) -> None:
    count, size = 20_000, 2_000

    def talk(ctx: ToolContext) -> str:
        for number in range(count):
            ctx.progress(f"{number} " + "x" * size)
        return "done"

    @tool(effect="read", name="chatter")
    def on_a_thread(ctx: ToolContext) -> str:
        """Report progress many times."""
        return talk(ctx)

    @tool(effect="read", name="chatter")
    async def on_the_loop(ctx: ToolContext) -> str:
        """Report progress many times."""
        return talk(ctx)

    chatter = on_a_thread if where == "on a thread" else on_the_loop

    async def main() -> list[str]:
        seen: list[str] = []
        async with Runtime(":memory:", model=ScriptedModel([call("chatter"), say("done")])) as runtime:
            session = await runtime.open(Agent("host", tools=[chatter]))

            async def watch() -> None:
                async for item in session.progress():
                    seen.append(item.text[:10])

            watching = asyncio.create_task(watch())
            await asyncio.sleep(0)
            await session.ask("go")
            await session.close()
            await watching
        return seen

    tracemalloc.start()
    seen = asyncio.run(main())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    assert seen
    assert seen[-1].startswith(str(count - 1))


@pytest.mark.slow
def test_d12_a_model_that_streams_a_gibibyte_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "ANSWER_BYTES_MAX", 4 * 2**20)
    sent = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        start = {"type": "message_start", "message": {"type": "message", "usage": {"input_tokens": 1}}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta = {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "x" * 2**16},
        }
        events = [b"data: " + msgspec.json.encode(event) + b"\n\n" for event in (start, block, delta)]
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + events[0] + events[1])
        with contextlib.suppress(ConnectionError):
            while sent[0] < 2**30:
                writer.write(events[2])
                sent[0] += 2**16
                await writer.drain()
        writer.close()

    async def main() -> Outcome:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        model = AnthropicModel("m", api_key="key-for-test", base_url=f"http://127.0.0.1:{port}")
        async with server, Runtime(":memory:", model=model) as runtime:
            return await runtime.run(Agent("host", limits=Limits(max_model_attempts=1)), "go")

    outcome = asyncio.run(asyncio.wait_for(main(), 30))
    assert outcome.kind == "model_error"
    assert "larger than 4194304 bytes" in outcome.detail
    assert sent[0] < 2**26


# --- deciders ---------------------------------------------------------------------------------------------

NOTES: list[str] = []


@tool
async def note(text: str) -> str:
    """Write a note. The start of each call is durable in the log before the call."""
    NOTES.append(text)
    return "noted"


KIDS = Agent("host", agents=[Agent("kid", tools=[note])])


def kids() -> ScriptedModel:
    host: list[Step | Policy] = [call("task", agent="kid", prompt="x"), say("host is done")]
    return ScriptedModel({"host": host, "kid": [call("note", text="x"), say("hi")]})


def recurse_forever() -> None:
    recurse_forever()


def eat_memory() -> None:
    raise MemoryError


@pytest.mark.parametrize("poison", [recurse_forever, eat_memory])
def test_a_decider_out_of_stack_or_memory_crashes_its_agent_alone(
    poison: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(state: AgentState, seq: int, body: AgentInput) -> Decision:
        if state.address == "host.1" and isinstance(body, ModelReplied) and body.turn == 2:
            poison()
        return decide_agent(state, seq, body)

    with monkeypatch.context() as patch:
        patch.setattr(step_module, "decide_agent", poisoned)
        outcome = run(tmp_path / "log.db", KIDS, kids())
    assert outcome.text == "host is done"
    found = recording(tmp_path / "log.db")
    assert {node.address: node.kind for _, node in found.tree().walk()}["host.1"] == "crashed"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["exit", "interrupt"])
@pytest.mark.parametrize("whose", ["agent", "supervisor"])
def test_an_exit_inside_a_decider_is_not_its_failure_and_the_next_process_goes_on(
    error: BaseException, whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_agent(state: AgentState, seq: int, body: AgentInput) -> Decision:
        if state.address == "host.1" and isinstance(body, ModelReplied) and body.turn == 2:
            raise error
        return decide_agent(state, seq, body)

    NOTES.clear()
    with monkeypatch.context() as patch:
        if whose == "agent":
            patch.setattr(step_module, "decide_agent", of_agent)
        else:
            poison_supervisor(patch, Finished, error)
        with pytest.raises(type(error)):
            run(tmp_path / "log.db", KIDS, kids())
    events = recording(tmp_path / "log.db").events
    assert not [event for event in events if isinstance(event.body, DeciderFailed)]
    outcome = resumed(tmp_path / "log.db", KIDS, kids())
    assert outcome is not None
    assert outcome.text == "host is done"
    assert NOTES == ["x"]


@pytest.mark.parametrize("error", [ValueError("broken"), MemoryError(), RecursionError()], ids=repr)
def test_a_supervisor_that_fails_stops_its_session_and_the_next_process_goes_on(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        poison_supervisor(patch, Finished, error)
        with pytest.raises(SessionFailed, match=type(error).__name__):
            run(tmp_path / "log.db", KIDS, kids())
    before = list(recording(tmp_path / "log.db").events)
    outcome = resumed(tmp_path / "log.db", KIDS, kids())
    assert outcome is not None
    assert outcome.text == "host is done"
    assert recording(tmp_path / "log.db").events[: len(before)] == before


# --- Ctrl-C -----------------------------------------------------------------------------------------------

HOLDING = """
import time
from pathlib import Path
from callboard import Agent, ScriptedModel, call, say, tool

@tool(effect="idempotent")  # so the ask is on disk before it starts
def hold() -> str:
    "Hold on while there is a file."
    Path("started").touch()
    while Path("held").exists():
        time.sleep(0.02)
    return "let go"

host = Agent("host", tools=[hold], model=ScriptedModel(
    lambda asked: call("hold") if asked.turn == 1 else say("went on")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="this system has no signals")
@pytest.mark.parametrize("verb", ["run", "chat"])
def test_ctrl_c_twice_leaves_a_log_from_which_the_next_process_goes_on(verb: str, tmp_path: Path) -> None:
    (tmp_path / "holding.py").write_text(HOLDING)
    (tmp_path / "held").touch()
    environment = {"PYTHONPATH": import_path(ROOT), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    prompt = ["Go."] if verb == "run" else []
    command = [sys.executable, "-m", "callboard", verb, "holding:host", *prompt, "--log", "log.db"]
    pipe = subprocess.PIPE
    with running(command, cwd=tmp_path, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"Go.\n")
        process.stdin.flush()
        block_until(lambda: (tmp_path / "started").exists())
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if b"leaving, the work under way" in line:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDS_WITHIN_S) == 130
    (tmp_path / "held").unlink()
    script = (
        "import asyncio, holding\n"
        "from callboard import Runtime\n"
        "async def main():\n"
        "    async with Runtime('log.db') as runtime:\n"
        "        (row,) = await runtime.log.sessions()\n"
        "        session = await runtime.resume(row.session_id, holding.host)\n"
        "        outcome = await session.outcome\n"
        "        again = await session.ask('Once more.')\n"
        "        print(outcome.kind if outcome else None, again.text)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # "answered" if the cancel did not reach the disk in time: then no outcome was shown
    assert done.stdout in ("cancelled went on\n", "answered went on\n")
    recording(tmp_path / "log.db", "")
