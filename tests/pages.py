"""Follow a page of the documentation as a reader does: write its files, run its code, type its commands.

A block of Python that starts with a file name is that file. Any other block of Python runs at once, and must
print what the comments behind its `print` calls say. In a block of commands `...` stands for any text, on a
line of its own for any lines. Blocks in other languages are only read.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from click.testing import CliRunner

from callboard.cli.main import cli
from callboard.runtime.models.protocol import model_named
from tests.processes import import_path

ROOT = Path(__file__).parent.parent
PYTEST = ("-m", "pytest", "-pno:callboard", "-pcallboard.pytest_plugin", "-pno:cacheprovider")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins of the suite, which take longer to load than the tests of a page take."""

IN_A_TERMINAL = {"explore", "check"}
"""Commands whose output is drawn for the width of a terminal."""


class Block(NamedTuple):
    """A fenced block of a page. line: where it begins."""

    language: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """List the fenced blocks of a page, in order."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [Block(one[1], one[2], text.count("\n", 0, one.start()) + 2) for one in found]


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Run and import from a folder, and forget its modules afterwards."""
    path, before = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(folder))
    model_named.cache_clear()  # its models may come from a module of this name in another folder
    with contextlib.chdir(folder):
        try:
            yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - before:
                if str(folder) in (getattr(sys.modules[name], "__file__", None) or ""):
                    del sys.modules[name]


class Screen(io.StringIO):
    """A terminal as programs see it."""

    def isatty(self) -> bool:
        return True

    def last(self) -> str:
        """Return the last text of each line, without the sequences that colour it and move the cursor."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())
        return "\n".join(line.rpartition("\r")[2] for line in text.split("\n"))


class Reader:
    """A reader who does everything that a page says, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exit_code = 0
        self.schedule = ""

    def follow_page(self, page: Path) -> None:
        """Do everything that a page says."""
        for block in blocks(page.read_text()):
            self.follow(block, page.name)

    def follow(self, block: Block, page: str = "") -> None:
        """Do what a block says."""
        where = f"{page}:{block.line}"
        if block.language == "console":
            for command, expected in commands(block.text):
                self.type(command, expected, where)
        elif block.language == "python":
            if name := re.match(r"# (\w+\.py)\n", block.text):
                (self.folder / name[1]).write_text(block.text)
            else:
                promised = re.findall(r"print\(.*\)  # (.*)$", block.text, re.MULTILINE)
                shown = self.execute(block.text, where)
                assert shown.splitlines() == promised, f"{where} prints\n{shown}"

    def execute(self, code: str, where: str) -> str:
        """Run code in this process and return its output."""
        shown = io.StringIO()
        with working_in(self.folder), contextlib.redirect_stdout(shown):
            exec(compile(code, where, "exec"), {"__name__": "__main__"})
        return shown.getvalue()

    def type(self, command: str, expected: list[str], where: str) -> None:
        """Type a command and compare its output."""
        if command == "echo $?":
            assert expected == [str(self.exit_code)], f"{where}: the exit code is {self.exit_code}"
            return
        program, *arguments = shlex.split(command)
        arguments = [self.schedule if one == "..." else one for one in arguments]
        shown = self.run_program(program, arguments)
        self.schedule = "".join(re.findall(r"--schedule (\S+)", shown)[:1]) or self.schedule
        missing = first_missing(expected, shown.splitlines())
        assert missing is None, f"{where}: {command}\ndoes not print\n{missing}\nbut\n{shown}"

    def run_program(self, program: str, arguments: list[str]) -> str:
        """Run one of the programs that pages use."""
        if program == "callboard" and arguments[0] in IN_A_TERMINAL:
            return self.run_in_terminal(arguments)
        if program == "callboard":
            return self.run_command(arguments)
        assert program in ("python", "pytest"), f"pages do not use {program}"
        if program == "python":
            (name,) = arguments
            return self.run_file(name)
        return self.run_pytest(arguments)

    def run_command(self, arguments: list[str]) -> str:
        """Run a command of callboard in this process."""
        with working_in(self.folder):
            done = CliRunner(env={"COLUMNS": "80"}).invoke(cli, arguments, prog_name="callboard")
        self.exit_code = done.exit_code
        return done.output or done.stdout  # bytes to stdout's buffer are not in the mixed output

    def run_in_terminal(self, arguments: list[str]) -> str:
        """Run a command in this process, as on a terminal of 80 columns, and return its last screen."""
        shown = Screen()
        with self._working(shown):
            self.exit_code = _exit_code(lambda: cli(arguments, prog_name="callboard"))
        return shown.last()

    def run_file(self, name: str) -> str:
        """Run a file in this process and return its output."""
        shown = io.StringIO()
        with self._working(shown):
            self.exit_code = _exit_code(lambda: runpy.run_path(name, run_name="__main__"))
        return shown.getvalue()

    def run_pytest(self, arguments: list[str]) -> str:
        """Run pytest in a process of its own; return its results before its errors."""
        done = subprocess.run(
            [sys.executable, *PYTEST, *arguments],
            cwd=self.folder,
            env={**os.environ, **ALONE, "PYTHONPATH": import_path(ROOT, self.folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.exit_code = done.returncode
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    @contextlib.contextmanager
    def _working(self, shown: io.StringIO) -> Iterator[None]:
        """Work in the folder of the reader, who sees all that is written."""
        with (
            working_in(self.folder),
            contextlib.redirect_stdout(shown),
            contextlib.redirect_stderr(shown),
            mock.patch.dict(os.environ, COLUMNS="80", LINES="24", TERM="xterm-256color"),
        ):
            yield


def _exit_code(program: Callable[[], object]) -> int:
    """Run a program in this process. Return its exit code."""
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block with the lines that it prints."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def first_missing(expected: list[str], shown: list[str]) -> str | None:
    """Return the first expected line that is not in its place; None if all are."""
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
