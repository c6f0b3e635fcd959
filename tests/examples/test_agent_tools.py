"""The example of agents as tools prints the kinds of its calls, and what a model read of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.mark.slow
def test_the_example_folds_its_failures(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "agent_tools.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    said, printed = done.stdout, done.stderr
    assert printed == ""
    assert "host.2 searcher: answered, read as ok" in said
    assert "host.3 searcher: denied, read as invalid_input" in said
    assert "host.4 letters: unavailable, read as unavailable" in said
    assert "verified without the contract: True" in said
