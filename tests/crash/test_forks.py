"""A fork whose process is killed while a tool runs that was held for its recorded result."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.replay import Recording


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.crash.fork_victim", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("effects", ["live", "ask"])
@pytest.mark.parametrize(("effect", "runs"), [("write", 1), ("idempotent", 2)])
def test_a_call_whose_recorded_result_did_not_fit_is_not_repeated_unless_it_is_idempotent(
    tmp_path: Path, effects: str, effect: str, runs: int
) -> None:
    (tmp_path / "root").mkdir()
    recorded = run(tmp_path, effect, effects, "record")
    assert recorded.returncode == 0, recorded.stderr
    (origin_key,) = (tmp_path / "effects").read_text().split()
    (tmp_path / "effects").unlink()
    killed = run(tmp_path, effect, effects, "fork")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(tmp_path, effect, effects, "resume")
    assert done.returncode == 0, done.stderr
    keys = (tmp_path / "effects").read_text().split()
    assert len(keys) == runs
    assert len({origin_key, *keys}) == 2, "a fork has its own key, in all of its processes"
    assert ("Interrupted" in done.stdout) is (effect == "write")
    assert Recording.open(tmp_path / "log.db", "fork").verify().is_ok
