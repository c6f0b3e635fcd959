"""Agents whose process is killed while their conversation becomes shorter: `make crash-compaction` tries all.

A summary whose answer is on disk is not asked for again, and the end is that of an undisturbed run.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.replay.testing.rules.requests import check_requests
from tests.effort import effort


def run(folder: Path, point: int) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.crash.compaction_victim", str(folder), str(point)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def asked(folder: Path) -> list[str]:
    """Return the digests of the requests that the model got."""
    file = folder / "asked"
    return [line.split()[2] for line in file.read_text().splitlines()] if file.exists() else []


def answered(folder: Path) -> set[str]:
    """Return the digests of the requests whose answers are on disk."""
    digests: dict[tuple[int, int], str] = {}
    found = set()
    for event in Recording.open(folder / "victim.db", "victim").events:
        if isinstance(event.body, TurnRequested):
            digests[event.body.turn, event.body.attempt] = event.body.digest
        elif isinstance(event.body, ModelReplied) and event.body.status == "ok":
            found.add(digests[event.body.turn, event.body.attempt])
    return found


def compactions(folder: Path) -> list[str]:
    bodies = [event.body for event in Recording.open(folder / "victim.db", "victim").events]
    return [f"{one.by} of {one.upto}" for one in bodies if isinstance(one, Compacted)]


def kill_and_resume(whole: Path, folder: Path, point: int, end: str) -> None:
    """Kill a run at a point, finish it in another process, and compare it with an undisturbed one."""
    killed = run(folder, point)
    assert killed.returncode == -9, killed.stderr
    known, before = answered(folder), asked(folder)
    done = run(folder, 0)
    told = f"point {point}\n{killed.stderr}\n{done.stdout}\n{done.stderr}"
    assert (done.returncode, done.stdout) == (0, end), told
    again = asked(folder)[len(before) :]
    assert not known & set(again), f"asked again although the answer is on disk: {told}"
    assert len(again) <= len(asked(whole)) - len(known), told
    assert compactions(folder) == compactions(whole), told
    recording = Recording.open(folder / "victim.db", "victim")
    assert recording.verify().is_ok, told
    assert not check_log(recording.events), told
    assert not check_requests(recording.events), told


def undisturbed(folder: Path) -> tuple[str, int, list[int]]:
    """Return the output of a whole run, the number of its points, and those within compactions."""
    done = run(folder, 0)
    assert done.returncode == 0, done.stderr
    count, *within = map(int, done.stderr.splitlines()[-1].split())
    kinds = {one.split()[0] for one in compactions(folder)}
    assert kinds == {"clear", "summary"}, kinds
    return done.stdout, count, within


@pytest.mark.slow
def test_an_agent_killed_within_a_compaction_goes_on_and_asks_for_nothing_twice(tmp_path: Path) -> None:
    end, _, within = undisturbed(tmp_path / "whole")
    assert len(within) > 10
    for point in within[3 :: len(within) // effort(2, 12)]:
        kill_and_resume(tmp_path / "whole", tmp_path / str(point), point, end)


def main() -> None:
    """Kill at every point."""
    with tempfile.TemporaryDirectory() as name:
        end, count, within = undisturbed(Path(name) / "whole")
        for point in range(1, count):  # after the last one the session is closed
            kill_and_resume(Path(name) / "whole", Path(name) / str(point), point, end)
    print(f"{count - 1} kills, {len(within)} of them within a compaction, no rule broken")


if __name__ == "__main__":
    main()
