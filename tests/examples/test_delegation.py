"""The example with own delegation: its tests pass, and find a fault that is put into it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ALONE, PYTEST, ROOT
from tests.processes import import_path

pytestmark = pytest.mark.slow
FOLDER = ROOT / "examples" / "delegation"


def outcome_of(folder: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *PYTEST, "-q", "-c", os.devnull, f"--rootdir={folder}", *options, str(folder)],
        cwd=folder,
        env={**os.environ, **ALONE, "PYTHONPATH": import_path(ROOT, folder)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_its_tests_pass() -> None:
    code, shown = outcome_of(FOLDER)
    assert (code, "4 passed" in shown) == (0, True), shown


def test_they_find_an_editor_that_believes_one_reviewer(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.py"):
        (tmp_path / path.name).write_text(path.read_text().replace("== 2\n", ">= 1\n"))
    code, shown = outcome_of(tmp_path, "-k", "no_order")
    assert code == 1
    assert "It is published only if both reviewers said yes." in shown
    assert "--callboard-schedule" in shown
