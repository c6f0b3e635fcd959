"""Wrong deploys under programs that were killed or left: `make crash-deploys` tries 200 of them."""

import subprocess
import sys
from random import Random

import pytest

from tests.crash.deployed import drawn
from tests.effort import effort


@pytest.mark.slow
def test_a_program_ends_as_without_the_wrong_deploys_that_were_rolled_back() -> None:
    programs = effort(3, 200)
    command = [sys.executable, "-m", "tests.crash.wrong_deploys", "--programs", str(programs), "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{programs} of {programs} programs end as without" in done.stdout


def test_drawn_programs_have_sequences_gathers_timeouts_and_sub_agents() -> None:
    kinds = {part.kind for seed in range(50) for part in drawn(Random(seed)).host}
    assert kinds == {"call", "gather", "timeout", "late", "sleep", "delegate"}
