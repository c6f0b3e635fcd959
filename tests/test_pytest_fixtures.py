"""The fixture `recording`, by runs of pytest in a folder of their own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.errors import CorruptLog, MisuseError
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.usage import Need
from callboard.pytest_fixtures import load_recording
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of, store
from callboard.runtime.log.opening import open_log
from tests.golden import golden
from tests.replay.changed.sessions import record
from tests.replay.changed.test_following import host, policy
from tests.test_pytest_plugin import PLUGINS

pytest_plugins = ("pytester",)

Run = Callable[..., tuple[int, str]]

MODULE = '''
from callboard import Agent, tool

@tool(effect="read")
def look(key: str) -> str:
    """Look something up."""
    raise AssertionError("no tool runs")

@tool(effect="read")
async def wait(seconds: float) -> str:
    """Wait."""
    raise AssertionError("no tool runs")

kid = Agent("kid", instructions="Look.", description="Looks.", tools=[look, wait])
host = Agent("host", instructions="Ask.", agents=[kid])
'''


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs pytest in a folder of its own."""
    # A module's compiled file is left out: it would be taken for that of the module edited a moment later.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    def run(*arguments: str) -> tuple[int, str]:
        done = pytester.runpytest_inprocess(*PLUGINS, *arguments)
        return int(done.ret), "\n".join(done.outlines)

    return run


@pytest.fixture
def empty(pytester: pytest.Pytester) -> Path:
    recording = record(policy, host())
    recording.export("pytest", pytester.path / "test_agents.py", agent="agents_of_mine:host")
    (pytester.path / "agents_of_mine.py").write_text(MODULE)
    return pytester.path


def edit(folder: Path, old: str, new: str) -> None:
    assert old in MODULE
    (folder / "agents_of_mine.py").write_text(MODULE.replace(old, new))


@pytest.mark.slow
def test_an_exported_test_runs_by_itself_in_an_empty_folder(empty: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(words, cwd=empty, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


@pytest.mark.slow
def test_a_recording_is_written_again_after_an_intended_change(empty: Path, run: Run) -> None:
    edit(empty, '"Look."', '"Look twice."')
    code, text = run()
    assert code == 1
    assert "test_agents.jsonl: the agents of agents_of_mine:host differ" in text
    assert "-system: Look.\n+system: Look twice." in text
    assert "if the change is intended: pytest --callboard-update" in text
    code, text = run("--callboard-update")
    assert code == 0, text
    assert "callboard: recordings written again" in text
    assert "the requests of host.1 from turn 1, host.2 from turn 1" in text
    again = load_recording(empty / "test_agents.jsonl")
    assert again.verify().is_ok
    assert "Look twice." in str(again.event(1).body)


@pytest.mark.slow
def test_a_recording_whose_decisions_differ_is_not_updated(empty: Path, run: Run) -> None:
    before = (empty / "test_agents.jsonl").read_bytes()
    edit(empty, "tools=[look, wait]", "tools=[wait]")
    code, text = run("--callboard-update")
    assert code == 1
    assert "test_agents.jsonl is not rewritten, because a decision differs" in text
    assert "recorded: CallTool to tools" in text
    assert (empty / "test_agents.jsonl").read_bytes() == before


@pytest.mark.slow
def test_what_cannot_be_replayed_fails_with_a_sentence(empty: Path, run: Run) -> None:
    (empty / "agents_of_mine.py").write_text("import socket; socket.socket()")
    code, text = run()
    assert code == 1
    assert "without network and subprocesses" in text
    recording = empty / "test_agents.jsonl"
    recording.write_text(recording.read_text().replace("Look.", "Book.", 1))
    code, text = run()
    assert code == 1
    assert "does not match its digest: it was changed" in text
    recording.unlink()
    code, text = run()
    assert "cannot be read: No such file or directory" in text


@pytest.mark.slow
def test_without_agents_a_session_is_verified(pytester: pytest.Pytester, run: Run) -> None:
    tmp_path = pytester.path
    # As a version of callboard would have recorded it whose agent asked with another bound.
    events = [
        replace(one, body=replace(one.body, need=Need(9, 9))) if isinstance(one.body, TurnRequested) else one
        for one in golden("report")
    ]
    recording_of(events, "one").export("pytest", tmp_path / "test_one.py")
    code, text = run()
    assert code == 1
    assert "test_one.jsonl: this callboard decides differently" in text
    code, text = run("--callboard-update")
    assert (code, "no request" in text) == (0, True), text
    assert list(load_recording(tmp_path / "test_one.jsonl").events) == golden("report")


def test_an_export_is_loaded_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl"
    recording_of(golden("flaky"), "one", "a title").export("jsonl", path)
    found = load_recording(path)
    assert list(found.events) == golden("flaky")
    assert found.session_id == "one"


def test_files_that_are_no_recording_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="cannot be read"):
        load_recording(tmp_path / "none.jsonl")
    with pytest.raises(MisuseError, match="cannot be read"):
        load_recording(tmp_path)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(MisuseError, match="is empty"):
        load_recording(tmp_path / "empty.jsonl")
    one = tmp_path / "one.jsonl"
    recording_of(golden("flaky"), "one").export("jsonl", one)
    (tmp_path / "two.jsonl").write_bytes(one.read_bytes() * 2)
    with pytest.raises(MisuseError, match="holds 2 sessions"):
        load_recording(tmp_path / "two.jsonl")
    one.write_bytes(one.read_bytes()[:-200])
    with pytest.raises(CorruptLog):
        load_recording(one)


def test_a_log_with_a_key_is_loaded_with_it(tmp_path: Path) -> None:
    key, path = b"k" * 32, tmp_path / "k.db"
    store(open_log(path, key=key), golden("flaky"), "one")
    with Recording.open(path, "one", key=key) as recording:
        recording.export("jsonl", tmp_path / "k.jsonl")
    assert list(load_recording(tmp_path / "k.jsonl", key).events) == golden("flaky")
    with pytest.raises(Exception, match="key"):
        load_recording(tmp_path / "k.jsonl")
