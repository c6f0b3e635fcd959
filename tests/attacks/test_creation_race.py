"""Two processes force one path open while the file is being created: both find the same log."""

import subprocess
import sys
from pathlib import Path

import pytest

from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.runtime.log.kit import ROOT

SLOW = """
import asyncio, sys
from callboard.runtime.log.sqlite import meta
from callboard.runtime.log.sqlite.log import SQLiteLog

configure = meta._configure

def waiting(connection, path, *, is_new):
    print("looked: new" if is_new else "looked: made", flush=True)
    sys.stdin.readline()
    configure(connection, path, is_new=is_new)

async def main(path, name):
    meta._configure = waiting
    log = SQLiteLog(path, "process", force=True)
    try:
        await log.open()
        await log.create(name, 1, "")
        print("created", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
    sys.stdin.readline()
    await log.close()

asyncio.run(main(*sys.argv[1:]))
"""


class Opener:
    """A process that forces a log open, pauses after its first look, and continues on a signal."""

    def __init__(self, path: Path, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SLOW, str(path), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        self.process.communicate(timeout=20)
        return self.process.returncode


@pytest.mark.slow
def test_a_forced_open_while_another_process_makes_the_file_finds_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    first, second = Opener(path, "a"), Opener(path, "b")
    assert [first.said(), second.said()] == ["looked: new", "looked: new"]
    first.go_on()
    assert first.said() == "created"
    second.go_on()
    assert second.said() == "created"
    first.go_on()
    second.go_on()
    assert [first.end(), second.end()] == [0, 0]
    with SQLiteReader(path) as reader:
        assert sorted(row.session_id for row in reader.sessions()) == ["a", "b"]


@pytest.mark.slow
def test_of_two_that_race_without_a_pause_each_opens_or_is_refused_for_the_lock(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"{number}.db"
        openers = [Opener(path, name) for name in "ab"]
        for _ in range(2):
            for one in openers:
                one.go_on()
        said = [one.said() for one in openers], [one.said() for one in openers]
        assert all(line == "created" or line.startswith(("StoreLocked", "Fenced")) for line in said[1]), said
        assert [one.end() for one in openers] == [0, 0]
        with SQLiteReader(path) as reader:
            found = [row.session_id for row in reader.sessions()]
        assert found or "created" not in said[1]
