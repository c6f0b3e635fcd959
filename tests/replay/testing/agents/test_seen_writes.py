"""Writes that a read tool makes by itself: seen by the audit events of Python."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard import Agent, Call, ModelRequest, Reply, call, say, tool
from callboard.replay.testing.agents.remarks import RULE
from callboard.replay.testing.agents.seen_writes import watched_writes
from callboard.testing import BrokenRules, explore
from tests.tables import table


def append(folder: Path) -> None:
    with (folder / "audit.txt").open("a") as file:
        file.write("read\n")


def overwrite(folder: Path) -> None:
    os.close(os.open(folder / "old.txt", os.O_WRONLY | os.O_TRUNC))


def replace(folder: Path) -> None:
    (folder / "new.tmp").write_text("new")
    (folder / "new.tmp").replace(folder / "new.txt")


@table(
    ("act", "found"),
    [
        (append, ["writes the file 'audit.txt'"]),
        (overwrite, ["writes the file 'old.txt'"]),
        (replace, ["writes the file 'new.txt'"]),
        (lambda folder: (folder / "made").mkdir(), ["writes the file 'made'"]),
        (lambda folder: (folder / "old.txt").unlink(), ["removes the file 'old.txt'"]),
        (
            lambda folder: (folder / "old.txt").rename(folder / "new.txt"),
            ["writes the file 'new.txt'", "removes the file 'old.txt'"],
        ),
    ],
)
def test_what_is_written_or_removed_is_named(act: Callable[[Path], object], found: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).joinpath("old.txt").write_text("old")
        with watched_writes() as writes:
            act(folder)
        assert [line.replace(f"{name}/", "") for line in writes.found()] == found


def scratch(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as name, tempfile.NamedTemporaryFile(dir=folder):
        Path(name, "part").write_text("x")


def compile_module(folder: Path) -> None:
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "a.pyc").write_bytes(b"")


@table(
    "act",
    [
        lambda folder: (folder / "old.txt").read_text(),
        lambda folder: Path(os.devnull).write_text("x"),
        lambda folder: sorted(folder.rglob("*")),
        scratch,
        compile_module,
    ],
)
def test_reading_and_scratch_files_are_no_write(act: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).joinpath("old.txt").write_text("old")
        with watched_writes() as writes:
            act(folder)
        assert writes.found() == []


def test_nothing_is_seen_outside_of_the_block(tmp_path: Path) -> None:
    with watched_writes() as writes:
        pass
    append(tmp_path)
    assert writes.found() == []


@pytest.mark.parametrize("does", [append, scratch])
def test_a_read_tool_that_appends_to_a_file_breaks_the_rule(
    tmp_path: Path, does: Callable[[Path], None]
) -> None:
    @tool(effect="read")
    def stock(item: str) -> int:
        """Count an item."""
        does(tmp_path)
        return 3

    def policy(request: ModelRequest) -> Reply | Call:
        return call("stock", item="pen") if request.turn == 1 else say("3")

    host = Agent("host", tools=[stock])
    if does is scratch:
        explore(host, policy, reads_twice=True, runs=3)
        return
    with pytest.raises(BrokenRules) as broken:
        explore(host, policy, reads_twice=True, runs=3)
    assert f"{RULE} (stock writes the file " in str(broken.value)
    assert explore(host, policy, runs=3).is_ok
