"""docs/testing.md is run: its files are written, its code is executed, its commands print what it says.

A block of Python that starts with a file name is that file; any other runs at once, and prints what its
comments say. In a block of commands `...` stands for anything, on a line of its own for any lines.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.agents import Terminal

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "testing.md"
PYTEST = ("-m", "pytest", "-pno:callboard", "-pcallboard.pytest_plugin", "-pno:cacheprovider")


class Block(NamedTuple):
    """A fenced block of the guide. line: where it begins."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(one[1], one[2], text.count("\n", 0, one.start()) + 2) for one in found]


class Reader:
    """Somebody who does all that the guide says, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exit_code = 0
        self.schedule = ""

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        if block.language == "console":
            for command, expected in commands(block.text):
                self.type(command, expected, block.line)
        elif name := re.match(r"# (\w+\.py)\n", block.text):
            (self.folder / name[1]).write_text(block.text)
        else:
            promised = re.findall(r"^print\(.*\)  # (.*)$", block.text, re.MULTILINE)
            assert promised, f"line {block.line} prints nothing"
            done = self.run(["-c", block.text])
            assert done.splitlines() == promised, f"line {block.line}:\n{done}"

    def type(self, command: str, expected: list[str], line: int) -> None:
        """Type a command, and compare what it prints."""
        if command == "echo $?":
            assert expected == [str(self.exit_code)], f"line {line}: the exit code is {self.exit_code}"
            return
        program, *arguments = shlex.split(command)
        arguments = [self.schedule if one == "..." else one for one in arguments]
        shown = self.look(arguments) if program == "callboard" else self.run([*PYTEST, *arguments])
        self.schedule = "".join(re.findall(r"--schedule (\S+)", shown)[:1]) or self.schedule
        if saved := re.search(r"recorded as session (\S+);", shown):
            (self.folder / "session.txt").write_text(saved[1])
        missing = first_missing(expected, shown.splitlines())
        assert missing is None, f"{command}\ndoes not print\n{missing}\nbut\n{shown}"

    def look(self, arguments: list[str]) -> str:
        """Run callboard on a terminal of 80 columns; returns what stands there in the end."""
        with Terminal(self.folder, *arguments, columns=80) as terminal:
            self.exit_code = terminal.end(120)
        return "\n".join(line.rpartition("\r")[2] for line in terminal.text.split("\n"))

    def run(self, arguments: list[str]) -> str:
        """Run Python; returns what is shown, results before talk."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.exit_code = done.returncode
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands with the lines that they print."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def first_missing(expected: list[str], shown: list[str]) -> str | None:
    """The first expected line that is not there where it should be; None if all are."""
    at, is_anywhere = 0, False
    for line in expected:
        if line == "...":
            is_anywhere = True
            continue
        pattern = re.compile(re.escape(line.rstrip()).replace(r"\.\.\.", ".*"))
        places = range(at, len(shown) if is_anywhere else min(at + 1, len(shown)))
        found = next((place for place in places if pattern.fullmatch(shown[place].rstrip())), None)
        if found is None:
            return line
        at, is_anywhere = found + 1, False
    return None


@pytest.mark.slow
def test_the_guide_does_what_it_says(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    found = blocks(GUIDE.read_text())
    assert len(found) > 15
    for block in found:
        reader.follow(block)


@pytest.mark.slow
def test_the_readmes_test_finds_what_it_says(tmp_path: Path) -> None:
    (code,) = [block for block in blocks((ROOT / "README.md").read_text()) if block.language == "py"]
    reader = Reader(tmp_path)
    reader.follow(code)
    done = reader.run([*PYTEST, "-q", "test_pair.py"])
    assert "1 passed" in done


def test_lines_are_found_in_order_with_gaps_where_it_says_so() -> None:
    shown = ["a", "b 17 c", "d"]
    assert first_missing(["a", "b ... c", "d"], shown) is None
    assert first_missing(["...", "d"], shown) is None
    assert first_missing(["a", "d"], shown) == "d"
    assert first_missing(["...", "d", "...", "a"], shown) == "a"
    assert first_missing(["a", "b . c"], shown) == "b . c"
