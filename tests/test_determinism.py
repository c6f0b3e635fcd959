"""Every installed Python decides the same, and so does one that is asked twice.

The Pythons are: the one of this run (in `test_hash_seeds.py`), and each `python3.11` and later that is on
PATH, kept by pyenv, or listed in CALLBOARD_PYTHONS. One without callboard's libraries is skipped, by name.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.actors.session.step import ActorState, initial, step
from tests import golden
from tests.determinism import lines

ROOT = Path(__file__).parent.parent
SESSIONS = 15
OLDEST = (3, 11)
PROBE = "import sys, callboard.runtime.runtime, msgspec; print(*sys.version_info[:3], msgspec.__version__)"


def others() -> list[str]:
    """Find the interpreters from 3.11 on, except this one."""
    found = [path for path in os.environ.get("CALLBOARD_PYTHONS", "").split(os.pathsep) if path]
    for minor in range(OLDEST[1], OLDEST[1] + 10):
        found += [path] if (path := shutil.which(f"python3.{minor}")) else []
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found += [str(path) for path in sorted(pyenv.glob("3.*/bin/python3")) if _minor(path) >= OLDEST[1]]
    real: dict[Path, str] = {}
    for path in found:  # not resolved: a virtual environment's Python is a link, but has libraries of its own
        real.setdefault(Path(path).absolute().parent, path)
    return [path for path in real.values() if not Path(path).absolute().is_relative_to(sys.prefix)]


def _minor(path: Path) -> int:
    part = path.parent.parent.name.split(".")[1]
    return int(part) if part.isdigit() else 0


@pytest.mark.slow
@pytest.mark.parametrize("python", others() or [pytest.param("", marks=pytest.mark.skip("no other Python"))])
def test_event_bytes_and_states_agree_under_every_installed_python(python: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    probe = subprocess.run(
        [python, "-c", PROBE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if probe.returncode:
        pytest.skip(f"{python} cannot import callboard: {probe.stderr.strip().splitlines()[-1]}")
    if tuple(int(part) for part in probe.stdout.split()[:2]) < OLDEST:
        pytest.skip(f"{python} is {probe.stdout.split()[:3]}")
    command = [python, "-m", "tests.determinism", str(SESSIONS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.splitlines() == list(lines(SESSIONS)), probe.stdout


@pytest.mark.parametrize("name", golden.SESSIONS)
def test_a_decider_that_is_called_twice_returns_the_same_and_leaves_its_state_alone(name: str) -> None:
    states: dict[str, ActorState] = {}
    for event in golden.golden(name):
        before = states.get(event.recipient) or initial(event.recipient)
        shown = repr(before)
        first, again = step(before, event), step(before, event)
        assert first == again
        assert repr(before) == shown
        states[event.recipient] = first[0]
