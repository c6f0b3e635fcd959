"""Programs whose process is killed at many points: `make crash-programs` tries them all.

How many steps a run has depends on how fast its answers come, so a late point may not be reached: such a run
ends by itself, and is checked as the others. A failure names the point and has what both processes wrote.
"""

import collections
import subprocess
import sys
from pathlib import Path

import pytest

from callboard.replay import Recording
from tests.effort import effort

SHAPES = ("sequence", "gather")
ROUNDS = 8
"""Rounds of asks in the long version."""


def run(folder: Path, shape: str, point: int, rounds: int) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tests.crash.program_victim",
        str(folder),
        shape,
        str(point),
        str(rounds),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


def points(folder: Path, shape: str, rounds: int) -> int:
    """Return the number of points of an undisturbed run."""
    done = run(folder, shape, 0, rounds)
    assert done.returncode == 0, done.stderr
    return int(done.stderr.splitlines()[-1])


def cause(shape: str, point: int, *runs: subprocess.CompletedProcess[str]) -> str:
    """Describe the processes of a point."""
    told = [f"exit code {one.returncode}\n{one.stdout}\n{one.stderr}" for one in runs]
    return f"{shape}, point {point}\n" + "\n".join(told)


def kill_and_resume(folder: Path, shape: str, point: int, rounds: int) -> int:
    """Kill a run at a point, finish it in another process, and check. Return the unknown effects."""
    killed = done = run(folder, shape, point, rounds)
    if killed.returncode != 0:
        assert killed.returncode == -9, cause(shape, point, killed)
        done = run(folder, shape, 0, rounds)
    assert done.returncode == 0, cause(shape, point, killed, done)
    kind, *words = done.stdout.split()
    assert kind == "answered", cause(shape, point, killed, done)
    unknown = 0
    whole = [word for n in range(rounds) for word in (n, n, n, "did", 100 + n)]
    for word, expected in zip(words, whole, strict=True):
        unknown += word == "?"
        assert word in (str(expected), "?") or (expected == "did" and word.startswith("did-host.")), cause(
            shape, point, killed, done
        )
    check_effects(folder / "effects")
    assert Recording.open(folder / "victim.db", "victim").verify().is_ok
    return unknown


def check_effects(file: Path) -> None:
    lines = [line.split() for line in file.read_text().splitlines()]
    writes = collections.Counter(n for kind, n, _ in lines if kind == "write")
    assert max(writes.values(), default=0) <= 1, "a write ran twice"
    keys = collections.defaultdict(set)
    for kind, n, key in lines:
        keys[kind, n].add(key)
    assert all(len(found) == 1 for found in keys.values()), "an ask has two keys"
    assert len({key for found in keys.values() for key in found}) == len(keys), "two asks share a key"


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_that_is_killed_anywhere_goes_on_and_repeats_no_write(tmp_path: Path, shape: str) -> None:
    (tmp_path / "whole").mkdir()
    count = points(tmp_path / "whole", shape, 4)
    assert count > 20
    for point in range(2, count, count // effort(2, 12)):
        folder = tmp_path / str(point)
        folder.mkdir()
        kill_and_resume(folder, shape, point, 4)


def main() -> None:
    """Kill at every point of both shapes."""
    import tempfile

    tried = unknown = 0
    for shape in sys.argv[1:] or SHAPES:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "whole").mkdir()
            count = points(Path(name) / "whole", shape, ROUNDS)
            for point in range(1, count + 1):
                folder = Path(name) / str(point)
                folder.mkdir()
                found = kill_and_resume(folder, shape, point, ROUNDS)
                tried, unknown = tried + 1, unknown + bool(found)
        print(f"{shape}: {count} points")
    print(f"{tried} kills, {unknown} with an unknown effect, no rule broken")


if __name__ == "__main__":
    main()
