"""The example of silent sub-agents hears the host alone, unless it asks for all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "silent_agents.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    said = done.stdout
    assert "heard of the host: host\n" in said
    assert "heard of all: host host.1 host.2\n" in said
    assert "the sorter speaks, by cheap" in said
    assert "directly: the reader speaks, by large" in said
