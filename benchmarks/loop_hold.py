"""For how long a megabyte of the worst input holds the event loop, for each place that a stranger reaches.

    python benchmarks/loop_hold.py [--bytes 1000000] [--times 5] [--row TEXT]

Prints one row of JSON for each row of the table in `docs/security.md`: the worst of its cases, and the CPU
milliseconds of the loop's thread, the least of all times. `scaled_ms` is that for a machine with nothing else
to do: a fixed piece of Python, timed beside each of them, tells by how much this one is slower now. The
last line says which rows are above 50 ms.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.attacks.test_time_attacks import ROWS, Case

BOUND_MS = 50.0
SPIN_MS = 4.7  # of the machine that the figures are of, with nothing else to do


def spin_ms() -> float:
    """Return the CPU milliseconds of a fixed piece of Python."""
    start = time.thread_time()
    total, texts = 0, []
    for number in range(60_000):
        total += number % 7
        texts.append(str(number))
    "".join(texts).count("9")
    return (time.thread_time() - start) * 1_000


def cpu_ms(work: Callable[[Any], object], made: Callable[[int], Any], size: int) -> float:
    """Return the CPU milliseconds of one run on new input."""
    given = made(size)
    start = time.thread_time()
    with contextlib.suppress(Exception):  # a refusal is an end like any other
        work(given)
    return (time.thread_time() - start) * 1_000


class Measured(NamedTuple):
    """The worst case of a row. ms: of CPU, the least of all times. scaled_ms: of a machine that is idle."""

    scaled_ms: float
    ms: float
    case: str


def measured(case: Case, size: int, times: int) -> Measured:
    """Measure one case. Far below the bound, once is enough."""
    name, work, made = case
    taken, spins = [], []
    for _ in range(times):
        spins.append(spin_ms())
        taken.append(cpu_ms(work, made, size))
        if taken[-1] < BOUND_MS / 5:
            break
    slower = max(1.0, min(spins) / SPIN_MS)
    return Measured(min(taken) / slower, min(taken), name)


def main() -> None:
    """Measure the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--row", default="")
    given = parser.parse_args()
    above = []
    for row, cases in ROWS.items():
        if given.row not in row:
            continue
        worst = max(measured(case, given.bytes, given.times) for case in cases())
        figures = {"ms": round(worst.ms, 1), "scaled_ms": round(worst.scaled_ms, 1)}
        print(json.dumps({"row": row, "case": worst.case, **figures}), flush=True)
        if worst.scaled_ms > BOUND_MS:
            above.append(row)
    print(json.dumps({"above_50_ms": above, "spin_ms": round(spin_ms(), 2)}))


if __name__ == "__main__":
    main()
