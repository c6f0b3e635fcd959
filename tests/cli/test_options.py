"""`--files` of run, chat and resume: the files of a session, given on the command line."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard import Files, Runtime
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.file_area import FileArea
from callboard.cli.loading import load_agent
from callboard.replay import Recording
from tests.cli.conftest import Callboard

CODER = """
from callboard import Agent, ScriptedModel, call, calls, say
from callboard.tools.files import FILE_TOOLS

def told(request):
    if request.turn > 1:
        return say(bytes(request.messages[-1]).decode())
    return calls(call("read_file", path="docs/a"), call("write_file", path="docs/b", content="new"))

host = Agent("host", tools=FILE_TOOLS, model=ScriptedModel(told))
"""


@pytest.fixture
def run(callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callboard]:
    """Run a command on a module whose agent reads and writes files, in a log of its own."""
    (tmp_path / "coder.py").write_text(CODER)
    (tmp_path / "root/docs").mkdir(parents=True)
    (tmp_path / "root/docs/a").write_text("old words")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CALLBOARD_LOG", str(tmp_path / "own.db"))
    yield callboard
    sys.modules.pop("coder", None)


def area(log: Path) -> FileArea | None:
    """Return the files of the newest session as the log has them."""
    with Recording.open(log) as recording:
        bodies = [event.body for event in recording.events]
    found = [body.files for body in bodies if isinstance(body, SessionOpened | Resumed) and body.files]
    return found[-1] if found else None


def test_a_run_reads_and_writes_the_folder_that_is_named(run: Callboard, tmp_path: Path) -> None:
    options = ["--files", "root", "--files-write", "docs", "--files-label", "untrusted"]
    done = run("run", "coder:host", "Go.", "--quiet", *options)
    assert done.exit_code == 0, done.output
    assert "old words" in done.output
    assert (tmp_path / "root/docs/b").read_text() == "new"
    assert area(tmp_path / "own.db") == FileArea("files", (".",), ("docs",), ("untrusted",))


def test_a_folder_is_read_only_unless_it_is_stated(run: Callboard, tmp_path: Path) -> None:
    assert (
        run("run", "coder:host", "Go.", "--quiet", "--files", "root", "--files-read", "docs").exit_code == 0
    )
    assert not (tmp_path / "root/docs/b").exists()
    assert area(tmp_path / "own.db") == FileArea("files", ("docs",), ())


def test_a_chat_has_the_same_options(run: Callboard, tmp_path: Path) -> None:
    done = run("chat", "coder:host", "--files", "root", "--files-write", ".", text="Go.\n")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "root/docs/b").read_text() == "new"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--files-write", "docs"], "need --files FOLDER"),
        (["--files-label", "x"], "need --files FOLDER"),
        (["--files", "missing"], "cannot be opened"),
        (["--files", "root", "--files-read", "../x"], "not a path below the root"),
        (["--files", "root", "--files-label", " "], "labels"),
    ],
)
def test_options_that_cannot_work_are_refused(run: Callboard, options: list[str], said: str) -> None:
    done = run("run", "coder:host", "Go.", *options)
    assert done.exit_code == 2
    assert said in done.output


def test_a_resume_takes_the_files_and_without_them_says_which_option_to_give(
    run: Callboard, tmp_path: Path
) -> None:
    async def begin() -> str:
        async with Runtime(tmp_path / "own.db", files=Files("root", write=["docs"])) as runtime:
            session = await runtime.open(load_agent("coder:host"))
            await session.ask("Go.")
            return session.id

    asyncio.run(begin())
    missing = run("resume", "coder:host")
    assert missing.exit_code != 0
    assert "callboard resume --files FOLDER" in missing.output
    done = run("resume", "coder:host", "--files", "root", "--files-write", ".")
    assert done.exit_code == 0, done.output
    assert area(tmp_path / "own.db") == FileArea("files", (".",), (".",))
