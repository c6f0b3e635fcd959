"""`--memory` of the commands that ask: the memory of the runtime, given on the command line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.memory import SQLiteMemory
from tests.cli.conftest import Callboard

HELPER = """
from callboard import Agent, ScriptedModel, call, say
from callboard.tools.memory import MEMORY_TOOLS

def policy(request):
    if request.turn % 2:
        return call("remember", text="Ann likes tea.")
    return say(str(request.conversation[-1]["content"][0]["content"]))

host = Agent("host", tools=MEMORY_TOOLS, model=ScriptedModel(policy))
"""


@pytest.fixture
def run(callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callboard]:
    (tmp_path / "remembering.py").write_text(HELPER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CALLBOARD_LOG", str(tmp_path / "own.db"))
    yield callboard
    sys.modules.pop("remembering", None)


def texts(file: Path) -> list[str]:
    return [entry.text for entry in SQLiteMemory(file).recall("shared", "", 10)]


def test_a_run_and_a_chat_remember_in_the_file(run: Callboard, tmp_path: Path) -> None:
    done = run("run", "remembering:host", "Note it.", "--quiet", "--memory", "notes.db")
    assert done.exit_code == 0, done.output
    assert texts(tmp_path / "notes.db") == ["Ann likes tea."]
    done = run("chat", "remembering:host", "--memory", "notes.db", text="Note it.\n")
    assert done.exit_code == 0, done.output
    assert len(texts(tmp_path / "notes.db")) == 2


def test_without_the_option_the_model_reads_that_there_is_no_memory(run: Callboard) -> None:
    done = run("run", "remembering:host", "Note it.", "--quiet")
    assert done.exit_code == 0, done.output
    assert "memory" in done.output


def test_on_the_page_it_goes_with_an_agent(run: Callboard) -> None:
    done = run("ui", "--act", "--memory", "notes.db")
    assert (done.exit_code, "--memory go with --with" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (".", "is a folder; name a file in it"),
        ("gone/notes.db", "the folder gone does not exist; make it first"),
        ("nope://notes", "nope:// is not a store that callboard knows"),
    ],
)
def test_a_place_where_no_memory_can_be_is_refused_before_a_model_is_asked(
    run: Callboard, tmp_path: Path, place: str, told: str
) -> None:
    done = run("run", "remembering:host", "Note it.", "--memory", place)
    assert done.exit_code != 0
    assert told in done.stderr
    assert not (tmp_path / "own.db").exists()
