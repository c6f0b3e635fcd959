"""Every Python decides the same, and so does one that is asked twice.

The Pythons are: the one of this run (in `test_hash_seeds.py`), those that `.ci/pythons` prepares, and those
listed in CALLBOARD_PYTHONS. Each has callboard's libraries.
"""

import os
import subprocess
from pathlib import Path

import pytest

from callboard.actors.session.step import ActorState, initial, step
from tests import golden
from tests.determinism import lines
from tests.processes import import_path
from tests.tables import table

ROOT = Path(__file__).parent.parent
SESSIONS = 15
PROBE = "import sys, callboard.runtime.runtime, msgspec; print(*sys.version_info[:3], msgspec.__version__)"
PREPARED = sorted((ROOT / "build" / "pythons").glob("*/.installed"))
PYTHONS = [
    *(str(one.parent / "bin" / "python") for one in PREPARED),
    *filter(None, os.environ.get("CALLBOARD_PYTHONS", "").split(os.pathsep)),
]
NONE = pytest.param("", marks=pytest.mark.skip("needs another Python: `.ci/pythons` prepares those it finds"))


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS or [NONE])
def test_event_bytes_and_states_agree_under_every_python(python: str) -> None:
    environment = {**os.environ, "PYTHONPATH": import_path(ROOT), "PYTHONHASHSEED": "7"}

    def printed(*arguments: str) -> list[str]:
        command = [python, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        return done.stdout.splitlines()

    assert printed("-m", "tests.determinism", str(SESSIONS)) == list(lines(SESSIONS)), printed("-c", PROBE)


@table("name", golden.SESSIONS)
def test_a_decider_that_is_called_twice_returns_the_same_and_leaves_its_state_alone(name: str) -> None:
    states: dict[str, ActorState] = {}
    for event in golden.golden(name):
        before = states.get(event.recipient) or initial(event.recipient)
        shown = repr(before)
        first, again = step(before, event), step(before, event)
        assert first == again
        assert repr(before) == shown
        states[event.recipient] = first[0]
