"""The way of a label through a session in which an agent writes a file that another agent reads."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from callboard import (
    Agent,
    Files,
    ModelRequest,
    Reply,
    Runtime,
    ScriptedModel,
    ToolContext,
    call,
    calls,
    say,
    tool,
)
from callboard.cli.main import cli
from callboard.errors import UnknownName
from callboard.replay import Recording
from callboard.replay.rights import label_source
from callboard.tools.files import read_file, write_file


@tool(effect="read", untrusted=True)
def read_mail() -> str:
    """Read a mail."""
    return "mail"


@tool(effect="read")
def keep(ctx: ToolContext) -> str:
    """Keep a note in the shared state."""
    ctx.update_state("note", "kept")
    return "kept"


@tool(effect="read")
def recall(ctx: ToolContext) -> str:
    """Read the note of the shared state."""
    return str(ctx.state["note"])


STEPS: dict[tuple[str, int], Reply] = {
    ("host", 1): calls(call("task", agent="writer", prompt="write")),
    ("host", 2): calls(call("task", agent="reader", prompt="read")),
    ("writer", 1): calls(call("read_mail")),
    ("writer", 2): calls(call("write_file", path="note", content="1"), call("keep")),
}


def plan(request: ModelRequest) -> Reply:
    """Let the second agent read what the first one wrote."""
    if request.profile == "reader" and request.turn == 1:
        return calls(call("read_file", path="note"))
    return STEPS.get((request.profile, request.turn)) or say("done")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a log and its session: the host is told nothing by the writer, and hears it by the reader."""
    folder = tmp_path_factory.mktemp("labels")
    writer = Agent("writer", tools=[read_mail, write_file, keep])
    reader = Agent("reader", tools=[read_file, recall])
    host = Agent("host", agents=[writer, reader], state={"note": ""})
    (folder / "root").mkdir()
    files = Files(folder / "root", write=["."])

    async def run() -> str:
        async with Runtime(folder / "log.db", model=ScriptedModel(plan), files=files) as runtime:
            outcome = await runtime.run(host, "go", labels=["ticket"])
        assert outcome.labels == ("ticket", "untrusted")
        return outcome.session_id

    return folder / "log.db", asyncio.run(run())


def kinds(recording: Recording, label: str, kind: str, who: str) -> list[tuple[str, str]]:
    """Return the way of a label to the last event of a kind for an agent."""
    seq = [event.seq for event in recording.events if event.kind == kind and event.recipient == who][-1]
    return [(event.kind, event.recipient) for event in label_source(recording.events, seq, label)]


def test_a_label_leads_to_the_tool_that_states_it(place: tuple[Path, str]) -> None:
    with Recording.open(*place) as recording:
        assert kinds(recording, "untrusted", "ToolReturned", "host.1") == [("ToolReturned", "host.1")]
        # The end of the first delegation brought it to the host, and the host to the second sub-agent.
        assert kinds(recording, "untrusted", "ToolReturned", "host.2") == [
            ("Begin", "host.2"),
            ("DelegationEnded", "host"),
            ("ToolReturned", "host.1"),
        ]


def test_a_label_of_the_prompt_leads_to_the_ask(place: tuple[Path, str]) -> None:
    with Recording.open(*place) as recording:
        assert kinds(recording, "ticket", "ToolReturned", "host.1") == [
            ("Begin", "host.1"),
            ("Begin", "host"),
            ("Ask", "supervisor"),
        ]


def test_a_label_that_was_not_read_is_refused(place: tuple[Path, str]) -> None:
    with Recording.open(*place) as recording, pytest.raises(UnknownName, match="has read the label 'other'"):
        label_source(recording.events, recording.head.seq - 1, "other")


def test_the_command_shows_the_way(place: tuple[Path, str]) -> None:
    log, session = place
    with Recording.open(log, session) as recording:
        seq = [one.seq for one in recording.events if one.kind == "DelegationEnded"][-1]
    words = ["why", f"{session}#{seq}", "--label", "untrusted", "--log", str(log)]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    assert "the source of the label 'untrusted'" in shown.output
    found = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert found["label"][-1]["kind"] == "ToolReturned"


@pytest.mark.parametrize("name", ["read_file", "recall"])
def test_files_and_state_lead_to_their_writer(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    files = Files(tmp_path / "root", write=["."])
    kids = [Agent(one, tools=[read_mail, write_file, keep, read_file, recall]) for one in ("kid", "other")]
    host = Agent("host", agents=kids, state={"note": ""})
    written = asyncio.Event()
    read = call("read_file", path="note") if name == "read_file" else call("recall")

    async def side_by_side(request: ModelRequest) -> Reply:
        """Let `other` begin before `kid` has read anything, and read after `kid` has written."""
        if request.profile == "other" and request.turn == 1:
            await written.wait()
            return calls(read)
        if request.profile == "kid" and request.turn == 3:
            written.set()
        if request.profile == "host" and request.turn == 1:
            return calls(call("task", agent="kid", prompt="w"), call("task", agent="other", prompt="r"))
        name = request.profile.replace("kid", "writer").replace("host", "")
        return STEPS.get((name, request.turn)) or say("done")

    async def run() -> str:
        async with Runtime(tmp_path / "log.db", model=ScriptedModel(side_by_side), files=files) as runtime:
            return (await runtime.run(host, "go")).session_id

    with Recording.open(tmp_path / "log.db", asyncio.run(run())) as recording:
        assert kinds(recording, "untrusted", "ToolReturned", "host.2") == [
            ("ToolReturned", "host.2"),
            ("ToolReturned", "host.1"),
        ]
