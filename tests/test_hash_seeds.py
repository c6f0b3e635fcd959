"""Two processes with different hash seeds iterate over sets in different orders, and decide the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.determinism import lines
from tests.effort import effort
from tests.processes import import_path

ROOT = Path(__file__).parent.parent
SESSIONS = effort(6, 60)
PLANTED = """
from callboard.actors.protocol import prompts
real = prompts.task_tool
prompts.task_tool = lambda roster, **more: real(tuple(set(roster)), **more)
from tests.determinism import line, world
for number in range(3):
    print(line(str(number), world(number).log))
"""
"""A core that lists the agents for the model in the order of a set."""


def in_a_process(arguments: list[str], seed: str) -> list[str]:
    """Run a fresh process with this hash seed and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": import_path(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.splitlines()


@pytest.mark.slow
def test_event_bytes_and_states_agree_under_two_hash_seeds() -> None:
    here = list(lines(SESSIONS))
    for seed in ("0", "4242"):
        assert in_a_process(["-m", "tests.determinism", str(SESSIONS)], seed) == here
    assert len({line.split()[2] for line in here}) == len(here)


@pytest.mark.slow
def test_a_decision_that_depends_on_the_order_of_a_set_is_noticed() -> None:
    first = in_a_process(["-c", PLANTED], "0")
    assert any(in_a_process(["-c", PLANTED], seed) != first for seed in ("1", "2", "3", "4"))
