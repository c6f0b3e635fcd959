"""The example of a small window reads on to the end and knows what it has read."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "small_window.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    page = (ROOT / "docs" / "examples" / "small-window.md").read_text()
    (output,) = [block.text for block in blocks(page) if block.language == "text"]
    assert (done.stdout, done.stderr) == (output, "")
