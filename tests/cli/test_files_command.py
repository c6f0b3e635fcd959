"""`callboard files`, and files in `callboard diff` and `callboard fork`."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Callboard
from tests.runtime.files.history_kit import change, folder

_CODER = """
from callboard import Agent, ScriptedModel, call, say
from callboard.tools.files import FILE_TOOLS
from callboard.tools.shell import shell

calls = [
    call("edit_file", path="a", old_text="one", new_text="two"),
    call("shell", command="mv old new; ln -s new link"),
]
model = ScriptedModel(lambda request: calls[request.turn - 1] if request.turn < 3 else say("done"))
host = Agent("host", tools=[*FILE_TOOLS, shell], model=model)
"""


@pytest.fixture
def project(folder: Path, callboard: Callboard) -> Path:
    """Record a session that changed the files of a folder."""
    (folder / "survey.py").write_text(_CODER)
    root = folder / "project"
    for path, text in {"a": "one\n", "old": "old\n", "other": "x"}.items():
        change(root / path, text.encode())
    run = ("run", "survey:host", "go", "--files", str(root), "--files-write", ".", "--files-history")
    assert callboard(*run, "--log", str(folder / "f.db"), "-q").exit_code == 0
    return root


def test_the_list_names_versions_others_and_gaps(project: Path, callboard: Callboard) -> None:
    log = ("--log", str(project.parent / "f.db"))
    done = callboard("files", *log, "--files", str(project))
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == ["a", "new", "other"]
    assert rows[2][1:] == ["as", "of", "today"]
    assert "gap at #17: links, devices" in done.stderr
    versions = callboard("files", *log, "--versions").stdout
    assert versions.count("no file") == 2
    found = json.loads(callboard("files", "#10", *log, "--json").stdout)
    assert [(one["path"], one["bytes"], one["seq"]) for one in found["files"]] == [
        ("a", 4, 10),
        ("old", 4, 17),
    ]
    assert callboard("files", "#9", "a", *log).stdout == "one\n"


def test_files_are_put_back_and_never_over_changes_without_force(project: Path, callboard: Callboard) -> None:
    log = ("--log", str(project.parent / "f.db"))
    done = callboard("files", "#2", "--restore", str(project), *log)
    assert done.stdout.splitlines() == ["wrote a", "wrote old", "removed new"]
    change(project / "a", b"by hand")
    refused = callboard("files", "--restore", str(project), *log)
    assert (refused.exit_code, "does not know: a" in refused.stderr) == (2, True)
    assert folder(project)["old"] == b"old\n"
    assert callboard("files", "--restore", str(project), "--force", *log).exit_code == 0
    assert "has the files as of event" in callboard("files", "--restore", str(project), *log).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("#99",), 3, "has events 1 to 24; there is no 99"),
        (("nosuch",), 3, "no session"),
        (("#10", "nosuch"), 3, "the history does not know it"),
        (("#9", "new"), 3, "was not there at event 9"),
        (("--force",), 2, "need --restore"),
        (("--restore", "no/such/folder"), 2, "cannot be opened"),
    ],
)
def test_what_cannot_be_listed_is_said(
    project: Path, callboard: Callboard, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = callboard("files", *arguments, "--log", str(project.parent / "f.db"))
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_a_session_without_a_history_says_how_to_keep_one(callboard: Callboard) -> None:
    done = callboard("files", "20250101")
    assert (done.exit_code, "--files-history" in done.stderr) == (1, True)


def test_a_fork_works_in_a_copy_and_a_diff_shows_its_files(project: Path, callboard: Callboard) -> None:
    log = ("--log", str(project.parent / "f.db"))
    name = json.loads(callboard("files", *log, "--json").stdout)["session"]
    before = folder(project)
    fork = ("fork", f"{name}#10", "--with", "survey:host", "--files", str(project), *log)
    refused = callboard(*fork, "--files-write", ".")
    assert (refused.exit_code, "never writes into the folder" in refused.stderr) == (2, True)
    (project.parent / "reply").write_text(json.dumps([_REPLY]))
    copy = str(project.parent / "copy")
    done = callboard(
        *fork, "--files-write", ".", "--files-to", copy, "--set", "host:2=reply", "--effects", "live", "-q"
    )
    assert done.exit_code == 0, done.stderr
    assert folder(Path(copy)) == {"a": b"three\n", "old": b"old\n", "other": b"x"}
    assert folder(project) == before
    fork_id = json.loads(callboard("files", *log, "--json").stdout)["session"]
    difference = callboard("diff", name, fork_id, *log)
    assert difference.exit_code == 5
    lines = [line.strip() for line in difference.stdout.splitlines()]
    assert "files that differ" in lines
    assert {"-two", "+three"} <= set(lines)
    assert len(json.loads(callboard("diff", name, fork_id, *log, "--json").stdout)["files"]) == 3


_REPLY = {"type": "tool_use", "id": "t", "name": "write_file", "input": {"path": "a", "content": "three\n"}}
