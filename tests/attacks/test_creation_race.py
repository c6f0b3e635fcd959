"""Two processes force one path open while the file is being created: both find the same log."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from callboard.runtime.log.sqlite.reader import SQLiteReader
from tests.processes import ENDS_WITHIN_S, running
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

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> int:
        self.process.communicate(timeout=ENDS_WITHIN_S)
        return self.process.returncode


@contextmanager
def opening(path: Path, *names: str) -> Iterator[list[Opener]]:
    """Start a process for each of these sessions."""
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        commands = [[sys.executable, "-W", "error", "-c", SLOW, str(path), name] for name in names]
        yield [
            Opener(stack.enter_context(running(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)))
            for command in commands
        ]


@pytest.mark.slow
def test_a_forced_open_while_another_process_makes_the_file_finds_its_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with opening(path, "a", "b") as (first, second):
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
        with opening(path, "a", "b") as openers:
            for _ in range(2):
                for one in openers:
                    one.go_on()
            said = [one.said() for one in openers], [one.said() for one in openers]
            is_fine = [line == "created" or line.startswith(("StoreLocked", "Fenced")) for line in said[1]]
            assert all(is_fine), said
            assert [one.end() for one in openers] == [0, 0]
        with SQLiteReader(path) as reader:
            found = [row.session_id for row in reader.sessions()]
        assert found or "created" not in said[1]
