"""Failures of checkpoints and undo that users of other coding agents have reported, tried on histories.

Each test names the public issue. What they have in common: files are lost, or come back wrong, in silence.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callboard import Agent, Files, Runtime, ScriptedModel, call, say
from callboard.errors import ChangedFiles
from callboard.files import files_of, restore
from callboard.replay import Recording
from callboard.runtime.files import folder_scan
from callboard.runtime.files.folder_scan import Folder
from callboard.runtime.files.versions import CallVersions
from callboard.runtime.files.whole_files import read_whole
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.tools.shell import shell
from tests.runtime.files.history_kit import Told, change, folder


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path / "root")


def test_a_session_that_changes_files_by_commands_alone_can_be_undone(tmp_path: Path) -> None:
    """Changes by Bash had no checkpoint: anthropics/claude-code 94657, 87575."""
    root = tmp_path / "root"
    start = {"main.py": b"print(1)\n", "old.py": b"x = 1\n", "d/data.json": b"{}\n"}
    for path, data in start.items():
        change(root / path, data)
    commands = [
        "sed -i s/1/2/ main.py",
        "cat > new.py <<'E'\ny = 2\nE",
        f"{sys.executable} -c \"import pathlib; pathlib.Path('d/data.json').write_text('[1]')\"",
        "mv old.py moved.py; rm main.py; exit 3",
    ]
    log = MemoryLog()
    model = ScriptedModel([*(call("shell", command=one) for one in commands), lambda request: say("done")])
    runtime = Runtime(log, model=model, files=Files(root, write=["."], history=True))
    runtime.run_sync(Agent("coder", tools=[shell]), "go", session_id="s")
    with Recording.open(MemoryReader(log), "s") as recording:
        restore(Files(root, write=["."]), files_of(recording, 0))
        assert folder(root) == start
        restore(Files(root, write=["."]), files_of(recording))
        assert folder(root) == {"new.py": b"y = 2\n", "d/data.json": b"[1]", "moved.py": b"x = 1\n"}


def test_to_restore_one_file_deletes_no_other_whatever_git_knows(told: Told) -> None:
    """Restoring deleted virtually all files, untracked ones too: google-gemini/gemini-cli 13331."""
    others = {
        "untracked": b"1",
        ".git/HEAD": b"ref",
        "node_modules/x/.git/config": b"2",
        "d/ignored.log": b"3",
    }
    for path, data in others.items():
        change(told.root / path, data)
    told.run(("round2.txt", b"more changes"))
    told.write("round2.txt", b"another pass")
    restore(told.files, told.recorded(1))
    assert folder(told.root) == {**others, "round2.txt": b"more changes"}


def test_a_file_that_was_only_edited_is_never_deleted_by_an_undo(told: Told) -> None:
    """Undo deleted files that the session had edited, not made: anomalyco/opencode 3148."""
    change(told.root / "a", b"mine\n")
    told.write("a", b"edited\n")
    (told.root / "a").unlink()  # an undo that was killed half-way
    with pytest.raises(ChangedFiles):
        restore(told.files, told.recorded(0))
    restore(told.files, told.recorded(0), force=True)
    assert folder(told.root) == {"a": b"mine\n"}


def test_a_look_that_fails_is_a_gap_and_leaves_no_stale_version(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed snapshot passed an old state off as the new one: anomalyco/opencode 26893."""
    told.write("a", b"v1")
    call_ = told.call()
    call_.begin()
    change(told.root / "a", b"v2")
    with monkeypatch.context() as patched:
        patched.setattr(Folder, "seen", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call_.end()
    call_.failed("the folder could not be compared")
    told.answer(call_)
    assert [gap.why for gap in told.recorded().gaps] == ["the folder could not be compared"]
    with pytest.raises(ChangedFiles):  # nobody's newer work is overwritten with v1
        restore(told.files, told.recorded())
    told.run()
    assert told.as_of() == {"a": b"v2"}


def test_a_repository_within_the_folder_is_neither_entered_nor_touched(told: Told) -> None:
    """Checkpoints renamed .git to .git_disabled, and left it so: cline/cline 5598, 9590, 1313."""
    for path in (".git/HEAD", "sub/.git/HEAD", "node_modules/a/.git/HEAD"):
        change(told.root / path, b"ref: refs/heads/main\n")
    change(told.root / "sub/code", b"1")
    before = {path: data for path, data in folder(told.root).items() if ".git/" in path}
    told.run(("sub/code", b"2"))
    assert told.as_of() == {"sub/code": b"2"}
    assert {path: data for path, data in folder(told.root).items() if ".git" in path} == before


def test_a_huge_file_is_not_read_for_each_call(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 4.8 GB was hashed at each turn: cline/cline 13131. Snapshots took 80 GB: opencode 3176."""
    with (told.root / "huge").open("wb") as file:
        file.truncate(4_800_000_000)
    read: list[str] = []

    def noted(*of: object, **how: object) -> bytes:
        read.append(str(of[1]))
        return read_whole(*of, **how)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(folder_scan, "read_whole", noted)
    told.run(("small", b"1"))
    call_ = told.call()
    call_.begin()
    os.truncate(told.root / "huge", 4_900_000_000)
    call_.end()
    body = told.answer(call_)
    assert "huge" not in read
    assert [(one.left_out, one.bytes) for one in body.files] == [("unread", 0), ("large", 4_900_000_000)]
    assert body.contents == ()


def test_an_undo_can_be_undone(told: Told) -> None:
    """There was no redo: Aider-AI/aider 1427."""
    for data in (b"1", b"2", b"3"):
        told.write("a", data)
    for at in (1, 3, 0, 2):
        restore(told.files, told.recorded(at))
        assert folder(told.root) == ({"a": b"%d" % at} if at else {})


def test_every_changed_file_is_tracked_from_its_first_change_on(told: Told) -> None:
    """A snapshot tracked 0 files, and only some were restored: anthropics/claude-code 14002."""
    start = {name: name.encode() for name in "abc"}
    for path, data in start.items():
        change(told.root / path, data)
    for name in "abc":
        told.write(name, b"changed")
    done = restore(told.files, told.recorded(0))
    assert (sorted(done.written), folder(told.root)) == (["a", "b", "c"], start)


def test_work_that_came_after_the_session_is_never_put_back_to_an_old_state(told: Told) -> None:
    """Undo put files back to a state of weeks ago: anomalyco/opencode 10287, 5910."""
    told.write("a", b"by the session")
    change(told.root / "a", b"committed since")
    change(told.root / "b", b"made since")
    with pytest.raises(ChangedFiles, match="a; nothing was written"):
        restore(told.files, told.recorded(0))
    assert folder(told.root) == {"a": b"committed since", "b": b"made since"}


def test_a_history_needs_no_git_and_no_repository(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints failed without git, in silence or at the start: gemini-cli 4115, 15616; opencode 2642."""
    monkeypatch.setenv("PATH", "")
    told.run(("a", b"1"))
    restore(told.files, told.recorded(0))
    assert folder(told.root) == {}


_KILLED = """
import os, signal, sys
from callboard import Agent, Files, Runtime, ScriptedModel, ToolContext, call, say, tool

@tool(effect="write")
def change(number: int, ctx: ToolContext) -> str:
    "Write a file."
    ctx.files.write_text("a", f"version {number}")
    if number == 2 and sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"

model = ScriptedModel(lambda asked: call("change", number=asked.turn) if asked.turn < 4 else say("done"))
host = Agent("host", tools=[change], model=model)
runtime = Runtime(sys.argv[1] + "/log.db", files=Files(sys.argv[1] + "/root", write=["."], history=True))
if sys.argv[2] == "kill":
    runtime.run_sync(host, "go", session_id="s")
else:
    import asyncio
    async def main():
        async with runtime:
            session = await runtime.resume("s", host)
            print((await session.outcome).kind)
            await session.close()
    asyncio.run(main())
"""


def test_a_process_that_is_killed_between_a_write_and_its_commit_leaves_a_gap_and_no_false_version(
    tmp_path: Path,
) -> None:
    (tmp_path / "root").mkdir()

    def run(how: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", _KILLED, str(tmp_path), how]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert run("kill").returncode == -signal.SIGKILL
    log = str(tmp_path / "log.db")
    with Recording.open(log, "s") as recording:
        found = files_of(recording, is_checked=True)
        assert found.read("a") == b"version 1"
        with pytest.raises(ChangedFiles):  # version 2 is in the folder, and not in the log
            restore(Files(tmp_path / "root", write=["."]), found)
    done = run("resume")
    assert done.stdout.strip() == "answered", done.stderr
    with Recording.open(log, "s") as recording:
        assert recording.verify().divergence is None
        found = files_of(recording, is_checked=True)
        assert [gap.why for gap in found.gaps] == [
            "the call was interrupted, and the files that it changed are not known"
        ]
        versions = [found.bytes_of(one.version) for one in found.history.versions["a"] if one.version.digest]
        assert versions == [b"version 1", b"version 2", b"version 3"]


def test_a_call_that_is_given_up_has_no_version_behind_its_answer(told: Told) -> None:
    late: CallVersions = told.call()
    told.answer(late)
    before = late.before("a")
    change(told.root / "a", b"x")
    late.wrote("a", before, late.before("a"))
    assert told.answer(late).files == ()
    assert os.listdir(told.root) == ["a"]  # noqa: PTH208  # names alone
