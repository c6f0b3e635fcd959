"""The example of structured reports prints the report of each agent and of the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "reports.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    said = done.stdout
    assert "of judge: reported, Verdict(is_good=True, score=9)" in said
    assert "of counter: reported, [3, 4]" in said
    assert "of the run: Verdict(is_good=True, score=7)" in said
