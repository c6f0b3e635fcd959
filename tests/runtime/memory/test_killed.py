"""Three processes that write one memory and are killed in the middle: no acknowledged entry is lost."""

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from callboard.memory import SQLiteMemory
from tests.effort import effort
from tests.pages import ROOT

WRITER = """
import sys
from callboard.memory import MemoryEntry, SQLiteMemory

path, name = sys.argv[1:]
memory, number = SQLiteMemory(path, wait_s=30), 0
print("ready", flush=True)
while True:
    memory.remember("shared", MemoryEntry(f"{name}.{number}", f"fact{number} of {name} 长城"))
    print(f"+{name}.{number}", flush=True)
    if number % 4 == 3:
        memory.forget("shared", f"{name}.{number - 1}")
        print(f"-{name}.{number - 1}", flush=True)
    number += 1
"""


@contextmanager
def writing(path: Path, name: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a writer, and kill it at the end of the block, in any state."""
    command = [sys.executable, "-c", WRITER, str(path), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def acknowledged(path: Path, name: str, counts: list[int]) -> list[str]:
    """Run a writer for each count at once, and kill each after so many answers. Return all answers."""
    said: list[str] = []
    with ExitStack() as running:
        writers = [running.enter_context(writing(path, f"{name}-{place}")) for place in range(len(counts))]
        for writer, count in zip(writers, counts, strict=True):
            assert writer.stdout is not None
            for _ in range(count + 1):
                said.append(writer.stdout.readline().strip())
            writer.kill()
            said += writer.stdout.read().split()  # those that were on their way
    return said


@pytest.mark.slow
def test_no_acknowledged_entry_is_lost_when_writers_are_killed(tmp_path: Path) -> None:
    path, chance = tmp_path / "memory.db", random.Random(7)
    memory, said, found = SQLiteMemory(path), list[str](), set[str]()
    for kill in range(effort(2, 60)):
        # The first ones are killed while they make the file.
        counts = [0, 0, 1] if kill == 0 else [chance.randrange(30) for _ in range(3)]
        said += acknowledged(path, f"w{kill}", counts)
        sizes = memory.sizes()  # it can be read after every kill
        kept = {line[1:] for line in said if line[:1] == "+"} - {line[1:] for line in said if line[:1] == "-"}
        with closing(sqlite3.connect(path)) as file:
            found = {row[0] for row in file.execute("SELECT id FROM entries")}
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            file.execute("INSERT INTO words(words) VALUES ('integrity-check')")  # raises for a broken index
        # A writer may have been killed after it wrote, and before it said so: one step each.
        assert len(kept - found) <= 3 * (kill + 1)
        assert all(int(lost.rsplit(".", 1)[1]) % 4 == 2 for lost in kept - found)  # forgotten, not lost
        assert len(found - kept) <= 3 * (kill + 1)
        assert sum(sizes.values()) == len(found)
    assert len(said) > 10
    for name in [line[1:] for line in said[-20:] if line[:1] == "+" and line[1:] in found]:
        hits = memory.recall("shared", f"fact{name.rsplit('.', 1)[1]}", 50)
        assert name in {one.id for one in hits}
