"""Attack case L6: one canary goes everywhere a secret can go, and then every output is searched for it.

It is put into the environment, prompt, title, instructions, tool descriptions, a model's text, thinking and
arguments, its failure and its exception, a tool's output (whole, in base64, cut in its middle), exception
and progress, a schema, a sub-agent's prompt and report, a reason for a cancel. It must not appear in the
database, its WAL, an event, a live text, an outcome, an exception, a line of any logger, or the output of
a command.
"""

import asyncio
import base64
import logging
import os
import subprocess
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard import (
    Agent,
    Approval,
    Runtime,
    ScriptedModel,
    SecretPattern,
    SecretRef,
    ToolContext,
    call,
    calls,
    fail,
    say,
    tool,
)
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import ModelFailure
from callboard.cli.main import cli
from callboard.errors import OutcomeError
from callboard.replay.recording import Recording
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.models.protocol import ModelAnswer, OnText
from callboard.runtime.models.scripted import Reply, Step
from callboard.runtime.sanitize import to_json
from callboard.runtime.sessions.outcomes import Outcome
from callboard.runtime.sessions.stream_items import StreamItem, TextDelta

CANARY = "Canary/17+sings=at Dawn"
VARIABLE = "CALLBOARD_TEST_CANARY"
ENCODED = base64.b64encode(b"user:" + CANARY.encode() + b"!").decode()
SCHEMA = {
    "type": "object",
    "description": f"not {CANARY}",
    "properties": {"n": {"type": "string", "const": "7", "title": CANARY}},
}

NEEDLES = (CANARY, "Canary/17", ENCODED[8:-6], urllib.parse.quote(CANARY), "sings=at", "at Dawn")


def is_leaked(data: bytes | str) -> bool:
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    return any(needle in text for needle in NEEDLES)


@tool(effect="read")
def env(ctx: ToolContext) -> dict[str, str]:
    """Return the whole environment."""
    assert ctx.secret("CANARY") == CANARY
    ctx.progress(f"looked at {CANARY}")
    return {**os.environ, "basic": ENCODED, "url": urllib.parse.quote(CANARY), CANARY: "key"}


@tool(effect="read", description=f"Fails with {CANARY}.")
async def fails(how: str) -> str:
    if how == "group":
        raise ExceptionGroup("several", [ValueError(CANARY), KeyError(CANARY)])
    raise PermissionError(f"denied for {CANARY}")


@tool(effect="read")
def flood(ctx: ToolContext) -> str:
    """Return a long text with the canary at every place where the text could be cut."""
    return ("x" * 7 + CANARY) * 10_000


def policy(request: ModelRequest) -> Step | Reply:
    turn, who = request.turn, request.profile
    if who == "helper":
        return call("report_back", n=CANARY) if turn == 1 else call("report_back", n="7")
    if turn == 1:
        return calls(
            call("env"),
            call("fails", how=CANARY),
            call("fails", how="group"),
            call("flood"),
            call("task", agent="helper", prompt=f"use {CANARY}", output_schema=SCHEMA),
            call("nonsense", x={CANARY: CANARY}),
            text=f"I know {CANARY}",
        )
    if turn == 2 and request.attempt == 1:
        return fail("overloaded_error", f"no room for {CANARY}", retry_after_s=0.001)
    if turn == 2:
        return Reply(
            content=[
                {"type": "text", "text": f"and {CANARY}", "citations": [{"cited_text": CANARY}]},
                {"type": "server_tool_result", "unknown": [[{"deep": CANARY}]]},
                {"type": "tool_use", "id": "a", "name": "fails", "input": {"how": CANARY}},
            ]
        )
    return say(f"In the end: {CANARY}")


def agent() -> Agent:
    helper = Agent("helper", description=f"Helps with {CANARY}.", instructions=f"You know {CANARY}.")
    return Agent(
        "host",
        instructions=[{"type": "text", "text": f"The code is {CANARY}."}],
        tools=[env, fails, flood],
        agents=[helper],
        output_schema=None,
    )


class Live:
    """A watcher that keeps every text it is shown."""

    def __init__(self) -> None:
        self.said: list[str] = []

    async def watch(self, runtime: Runtime, path: Path) -> Outcome:
        session = await runtime.open(agent(), session_id="watched", title=f"title {CANARY}")
        tasks = [
            asyncio.create_task(self.items(session.stream())),
            asyncio.create_task(self.items(session.text())),
            asyncio.create_task(self.items(session.progress())),
        ]
        outcome = await session.ask(f"Say {CANARY}", output_schema=None)
        cancelled = asyncio.create_task(session.ask("again"))
        await asyncio.sleep(0)
        await session.cancel(f"because of {CANARY}")
        await cancelled
        files = [file for file in path.parent.iterdir() if not file.is_socket()]
        assert f"{path.name}-wal" in [file.name for file in files], "the WAL is there while the log is open"
        for file in files:
            assert not is_leaked(file.read_bytes()), file.name
        self.said += [encode(event.body).decode() async for event in _until_cancelled(session.events())]
        await session.close()
        await asyncio.gather(*tasks)
        return outcome

    async def items(self, feed: AsyncIterator[StreamItem]) -> None:
        async for item in feed:
            self.said.append(item.to_json())


async def _until_cancelled(events: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for event in events:
        yield event
        if isinstance(event.body, AskEnded) and event.body.kind == "cancelled":
            return


@pytest.fixture
def played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> tuple[Path, Live, Outcome]:
    """Run a session full of canaries with every log record captured."""
    monkeypatch.setenv(VARIABLE, CANARY)
    caplog.set_level(logging.DEBUG)
    path, live = tmp_path / "log.db", Live()

    async def main() -> Outcome:
        secrets = [SecretRef("CANARY", env=VARIABLE)]
        async with Runtime(path, model=ScriptedModel(policy), secrets=secrets) as runtime:
            return await live.watch(runtime, path)

    return path, live, asyncio.run(main())


def test_l6_no_file_of_the_log_holds_the_canary(played: tuple[Path, Live, Outcome]) -> None:
    path, _, _ = played
    files = list(path.parent.iterdir())
    assert files
    for file in files:
        assert not is_leaked(file.read_bytes()), file.name
    recording = Recording.open(SQLiteReader(path), "watched")
    assert recording.verify().is_ok
    assert sum(encode(event.body).count(b"[secret:CANARY]") for event in recording.events) > 40


def test_l6_no_watcher_sees_the_canary(
    played: tuple[Path, Live, Outcome], caplog: pytest.LogCaptureFixture
) -> None:
    path, live, outcome = played
    assert any("[secret:CANARY]" in said for said in live.said)
    assert not is_leaked("\n".join(live.said))
    assert outcome.text == "In the end: [secret:CANARY]"
    assert not is_leaked(repr(outcome))
    lines = [logging.Formatter().format(record) for record in caplog.get_records("setup")]
    assert not is_leaked("\n".join(lines))
    events = Recording.open(SQLiteReader(path), "watched").events
    traces = [event.body.trace for event in events if isinstance(event.body, ToolReturned)]
    assert any("[secret:CANARY]" in trace for trace in traces)
    assert not is_leaked("\n".join(traces))


LOOKING = [
    ("sessions",),
    ("show",),
    ("show", "--json"),
    ("tree",),
    ("events",),
    ("events", "--json"),
    ("events", "--step"),
    ("show", "--state", "--json"),
    ("show", "--state", "--actor", "host", "--json"),
    ("show", "--state", "--actor", "supervisor"),
    ("request", "5", "--json"),
    ("verify", "--all"),
    ("export",),
    ("export", "--format", "json"),
]


def test_l6_a_copy_of_the_log_does_not_hold_the_canary(played: tuple[Path, Live, Outcome]) -> None:
    copy = played[0].parent / "copy.db"
    arguments = ["export", "--all", "--format", "db", "-o", str(copy), "--log", str(played[0])]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert b"[secret:CANARY]" in copy.read_bytes()
    assert not is_leaked(copy.read_bytes())


@pytest.mark.slow
def test_l6_no_command_prints_the_canary(played: tuple[Path, Live, Outcome]) -> None:
    said = []
    for arguments in LOOKING:
        done = CliRunner().invoke(cli, [*arguments, "--log", str(played[0])])
        assert done.exit_code == 0, (arguments, done.output)
        said.append(done.output)
    assert sum(text.count("[secret:CANARY]") for text in said) > 20
    assert not is_leaked("\n".join(said))


def test_l6_the_tool_gets_the_value_and_the_model_gets_the_placeholder(
    played: tuple[Path, Live, Outcome],
) -> None:
    recording = Recording.open(SQLiteReader(played[0]), "watched")
    returned = [encode(event.body) for event in recording.events if event.kind == "ToolReturned"]
    assert any(b'\\"[secret:CANARY]\\":\\"key' in body for body in returned)
    assert any(b"denied for [secret:CANARY]" in body for body in returned)
    assert any(b"ValueError: [secret:CANARY]" in body for body in returned)
    assert any(b"[cut: these are the first" in body for body in returned)


class Model:
    """A custom model that fails in ways that no service does."""

    spec = ModelSpec("own", 100)

    def __init__(self, how: str) -> None:
        self.how = how

    def call(self, request: ModelRequest, on_text: OnText) -> ModelAnswer | Awaitable[ModelAnswer]:
        if self.how == "cut":
            failure = ModelFailure("bad", "." * (1_000 - len(CANARY) // 2) + CANARY)
            return ModelAnswer(failure=failure, model="m" * (1_000 - len(CANARY) // 2) + CANARY)
        if self.how == "at once":
            raise RuntimeError(CANARY)
        if self.how == "signed":
            block = {"type": "thinking", "thinking": f"the code: {CANARY}", "signature": "c2lnbmVk"}
            return ModelAnswer(to_json([block]), "end_turn")
        return self.later(on_text)

    async def later(self, on_text: OnText) -> ModelAnswer:
        for character in f"hello {CANARY} you":
            on_text(character)
        await asyncio.sleep(0)
        raise RuntimeError(f"{'x' * 990} {CANARY}")

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("how", ["at once", "later", "signed", "cut"])
def test_l6_a_model_that_fails_with_the_canary_does_not_tell_it(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    runtime = Runtime(tmp_path / "log.db", model=Model(how), secrets=[CANARY])
    outcome = runtime.run_sync(Agent("host"), "go")
    assert outcome.kind == "model_error"
    assert ("signed block" in outcome.detail) == (how == "signed")
    with pytest.raises(OutcomeError) as caught:
        outcome.unwrap()
    assert not is_leaked(str(caught.value) + repr(outcome))
    assert not is_leaked("\n".join(logging.Formatter().format(record) for record in caplog.records))
    for file in tmp_path.iterdir():
        assert not is_leaked(file.read_bytes()), file.name


def test_l6_live_text_in_single_characters_never_shows_the_canary() -> None:
    async def main() -> list[str]:
        said: list[str] = []
        async with Runtime(":memory:", model=Model("later"), secrets=[CANARY]) as runtime:
            session = await runtime.open(Agent("host"))

            async def listen() -> None:
                async for item in session.text():
                    said.append(item.text if isinstance(item, TextDelta) else item.kind)

            listening = asyncio.create_task(listen())
            await asyncio.sleep(0)
            await session.ask("go")
            await session.close()
            await listening
        return said

    said = asyncio.run(main())
    assert said == ["hello ", "[secret:1] ", "you", "reset"]


def test_l6_the_words_of_an_approval_do_not_hold_the_canary(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(approval="before")
    async def pay(euros: int) -> str:
        """Return a receipt."""
        return "paid"

    def approve(question: Approval) -> str:
        if question.seq > 10:
            raise RuntimeError(f"I would say {CANARY}")
        return f"{'.' * 1_990}{CANARY}"

    model = ScriptedModel([call("pay", euros=1), call("pay", euros=2), say("done")])
    runtime = Runtime(tmp_path / "log.db", model=model, secrets=[CANARY], approve=approve)
    assert runtime.run_sync(Agent("host", tools=[pay]), "go", session_id="one").text == "done"
    given = [e.body for e in Recording.open(tmp_path / "log.db", "one").events if e.kind == "ApprovalGiven"]
    assert len(given) == 2
    assert not is_leaked(repr(given) + caplog.text)
    assert "[secret:1]" in caplog.text
    assert not is_leaked((tmp_path / "log.db").read_bytes())


def test_l6_the_names_of_people_do_not_hold_the_canary(tmp_path: Path) -> None:
    name = f"{'.' * 190}{CANARY}"  # it would be cut inside the secret

    @tool(approval="before")
    async def pay(euros: int) -> str:
        """Return a receipt."""
        return "paid"

    async def main() -> None:
        model = ScriptedModel([call("pay", euros=1), say("done")])
        async with Runtime(tmp_path / "log.db", model=model, secrets=[CANARY]) as runtime:
            session = await runtime.open(Agent("host", tools=[pay]))
            asking = asyncio.create_task(session.ask("go"))
            assert (await anext(session.approvals())).approve(by=name, always=True)
            assert await session.revoke(session.permissions()[0].seq, by=name)
            await asking

    asyncio.run(main())
    assert not is_leaked((tmp_path / "log.db").read_bytes())
    assert CANARY[:10].encode() not in (tmp_path / "log.db").read_bytes()


def test_l6_a_logged_name_may_not_hold_the_canary(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "log.db"
        async with Runtime(path, model=ScriptedModel(["hi"] * 3), secrets=["canary-name"]) as runtime:
            with pytest.raises(InvalidPrompt, match="session_id holds a secret"):
                await runtime.run(Agent("host"), "go", session_id="canary-name")
            with pytest.raises(InvalidPrompt, match="name of an agent"):
                await runtime.run(Agent("canary-name"), "go")
            session = await runtime.open(Agent("host"))
            with pytest.raises(InvalidPrompt, match="request_id holds a secret"):
                await session.ask("go", request_id="canary-name")
            assert (await session.ask("go")).text == "hi"

    asyncio.run(main())
    for file in tmp_path.iterdir():
        assert b"canary-name" not in file.read_bytes()


def test_l6_a_custom_pattern_is_redacted(tmp_path: Path) -> None:
    pattern = SecretPattern("employee", "EMP-[0-9]{6}")
    runtime = Runtime(tmp_path / "log.db", model=ScriptedModel(["hello EMP-123456"]), secrets=[pattern])
    assert runtime.run_sync(Agent("host"), "I am EMP-123456").text == "hello [secret:employee]"
    assert b"EMP-123456" not in (tmp_path / "log.db").read_bytes()


@pytest.mark.slow
def test_l6_a_key_of_a_known_form_reaches_neither_log_nor_terminal(tmp_path: Path) -> None:
    # `callboard run` is given no secrets: it recognises keys by their form.
    key, root = "sk-" + "ant-" + "api03-" + "Ab3" * 20, Path(__file__).parent.parent.parent
    (tmp_path / "leaky.py").write_text(
        "import os\n"
        "from callboard import Agent, ScriptedModel, call, tool\n"
        "@tool(effect='read')\n"
        "def env() -> dict[str, str]:\n"
        "    return dict(os.environ)\n"
        "model = ScriptedModel([call('env'), 'the key is ' + os.environ['SOME_KEY']])\n"
        "host = Agent('host', tools=[env], model=model)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "run", "leaky:host", f"Go {key}", "--log", "own.db"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root), "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin", "SOME_KEY": key},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == "the key is [secret:anthropic-key]\n"
    assert key.encode() not in done.stdout + done.stderr
    for file in tmp_path.glob("own.db*"):
        assert key.encode() not in file.read_bytes(), file.name


def test_l6_redaction_can_be_turned_off_for_known_forms_alone() -> None:
    key = "sk-" + "ant-" + "Ab3" * 20
    model = ScriptedModel([f"{key} {CANARY}"])
    runtime = Runtime(":memory:", model=model, redact_keys=False, secrets=[CANARY])
    assert runtime.run_sync(Agent("host"), "go").text == f"{key} [secret:1]"
