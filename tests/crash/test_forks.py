"""A fork whose process is killed while a tool runs that was held for its recorded result."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.replay import Recording
from tests.effort import IS_CAMPAIGN


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.crash.fork_victim", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


ALL = [(effect, effects) for effect in ("write", "idempotent") for effects in ("live", "ask")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "effects"), ALL if IS_CAMPAIGN else [("write", "live"), ("idempotent", "ask")]
)
def test_a_call_whose_recorded_result_did_not_fit_is_not_repeated_unless_it_is_idempotent(
    tmp_path: Path, effect: str, effects: str
) -> None:
    (tmp_path / "root").mkdir()
    killed = run(tmp_path, effect, effects, "fork")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(tmp_path, effect, effects, "resume")
    assert done.returncode == 0, done.stderr
    origin, *keys = (tmp_path / "effects").read_text().split()
    assert len(keys) == (1 if effect == "write" else 2)
    assert len({origin, *keys}) == 2, "a fork has its own key, in all of its processes"
    assert ("Interrupted" in done.stdout) is (effect == "write")
    assert Recording.open(tmp_path / "log.db", "fork").verify().is_ok
