"""`callboard demo`: the real runtime on folders whose truth was written down independently."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from callboard.actors.protocol.messages import DelegationEnded
from callboard.cli.main import cli
from callboard.demo.agents import PROMPT, demo_host, demo_model
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.outcomes import Outcome
from tests.demo.folders import NAMES, build


def played(root: Path) -> tuple[Outcome, Recording]:
    """Record the demonstration on a folder in memory."""
    log = MemoryLog()

    async def run() -> Outcome:
        async with Runtime(log, model=demo_model()) as runtime:
            return await runtime.run(demo_host(root), PROMPT, session_id="demo")

    outcome = asyncio.run(run())
    return outcome, Recording.open(MemoryReader(log), "demo")


def reports(recording: Recording) -> dict[int, DelegationEnded]:
    """Map the places of the host's delegations in its turn to their ends."""
    ends = [e.body for e in recording.events if e.recipient == "host" and isinstance(e.body, DelegationEnded)]
    return {end.call: end for end in ends if isinstance(end, DelegationEnded)}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_demonstration_tells_the_truth_of_a_folder_and_its_recording_verifies(
    name: str, tmp_path: Path
) -> None:
    truth = build(name, tmp_path / "root")
    outcome, recording = played(tmp_path / "root")
    assert outcome.is_ok, outcome
    ended = reports(recording)
    testing = msgspec.json.decode(ended[0].value)
    assert (testing["answer"], testing["basis"]) == (truth.framework, truth.basis)
    entry = msgspec.json.decode(ended[2].value)
    assert entry["answer"] in truth.entry
    assert ended[3].kind == "iteration_cap"
    depth = msgspec.json.decode(ended[4].value)
    assert depth["levels"] == 3
    assert "nest 3 deep" in depth["refused"]
    kinds = [node.kind for _, node in recording.tree().walk()]
    assert kinds.count("lost_race") <= 1
    assert kinds.count("denied") == 1
    found = recording.verify()
    assert found.is_ok, "\n".join(found.lines())


@pytest.mark.slow
def test_the_command_prints_the_tree_the_report_the_log_and_what_to_try_next(tmp_path: Path) -> None:
    build(NAMES[0], tmp_path / "root")
    log = tmp_path / "demo.db"
    command = [sys.executable, "-m", "callboard", "demo", str(tmp_path / "root"), "--log", str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Testing framework:" in done.stdout
    for said in (
        "host.3",
        "lost_race",
        "iteration_cap",
        "agents may nest 3 deep",
        "all as recorded",
        str(log),
    ):
        assert said in done.stderr, said
    assert "callboard events" in done.stderr
    verified = subprocess.run(
        [sys.executable, "-m", "callboard", "verify", "--log", str(log)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr


def test_a_missing_folder_is_refused_before_anything_is_recorded(tmp_path: Path) -> None:
    log = tmp_path / "demo.db"
    result = CliRunner().invoke(cli, ["demo", str(tmp_path / "nowhere"), "--log", str(log)])
    assert result.exit_code == 2
    assert "is not a folder" in result.output
    assert not log.exists()
