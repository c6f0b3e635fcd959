"""docs/resume.md: its program is killed, started again and resumed, and prints the output of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT

PAGE = ROOT / "docs" / "resume.md"
(PROGRAM,) = re.findall(r"```python\n(# payments.py\n.*?)```", PAGE.read_text(), re.DOTALL)
(PROMISED,) = re.findall(r"print\(outcome\.text\)  # (.*)", PROGRAM)


def run(folder: Path, *command: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Run the program in a folder until it dies during a payment. Return the folder."""
    (tmp_path / "payments.py").write_text(PROGRAM)
    assert run(tmp_path, "payments.py", CRASH="1").returncode == 9
    return tmp_path


@pytest.mark.slow
def test_the_program_of_the_page_goes_on_where_it_was_killed_and_pays_once(killed: Path) -> None:
    done = run(killed, "payments.py")
    assert (done.returncode, done.stdout) == (0, PROMISED + "\n"), done.stderr
    assert (killed / "payments.txt").read_text() == "120\n"
    assert run(killed, "-m", "callboard", "verify", "--log", "payments.db").returncode == 0
    assert "SessionEnded" in run(killed, "payments.py").stderr


@pytest.mark.slow
def test_the_command_of_the_page_does_the_same(killed: Path) -> None:
    done = run(killed, "-m", "callboard", "resume", "payments:host", "--log", "payments.db")
    assert (done.returncode, done.stdout) == (0, PROMISED + "\n"), done.stderr
    assert (killed / "payments.txt").read_text() == "120\n"
