"""The same steps, in every process: constructs of asyncio, orders of answers, hash seeds."""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from tests.effort import effort
from tests.runtime.programs.constructs import CONSTRUCTS
from tests.runtime.programs.kit import conversation, played, started

ORDERS = effort(16, 40)


def recorded_lines() -> list[str]:
    lines = []
    for construct in CONSTRUCTS:
        for order in range(ORDERS):
            run = started(construct, session=f"{construct.__name__}-{order}")
            said = [json.loads(bytes(one)) for one in conversation(played(run, Random(order)))]
            lines.append(json.dumps([construct.__name__, said]))
    return lines


@pytest.mark.slow
def test_each_construct_is_repeated_in_other_processes_under_each_order_of_answers() -> None:
    lines = recorded_lines()
    assert len(lines) == len(CONSTRUCTS) * ORDERS >= 25 * ORDERS
    assert len(set(lines)) > len(lines) * 0.6, "the orders must differ, or this tests little"
    for seed in ("0", "4242"):
        done = subprocess.run(
            [sys.executable, "-m", "tests.runtime.programs.again"],
            input="\n".join(lines),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert done.stdout.splitlines() == [f"{len(lines)} checked"]


def test_one_order_of_answers_gives_one_result_in_one_process() -> None:
    for construct in CONSTRUCTS:
        first = played(started(construct), Random(5))
        second = played(started(construct), Random(5))
        assert [one.step.ending for one in first] == [one.step.ending for one in second], construct
