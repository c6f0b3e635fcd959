"""The example of a watched runtime prints records, spans and metrics."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT


@pytest.mark.slow
def test_the_example_prints_what_each_kind_of_telemetry_has_seen(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "watched.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    said = done.stdout
    assert done.stderr == ""
    assert "WARNING callboard.tools" in said
    assert "tool failed: KeyError in turn 1, call 0 at examples/watched.py" in said
    assert "ask ended: answered; model calls 5, tokens 1050" in said
    assert "\n    invoke_agent clerk\n      chat scripted (200 tokens in)\n" in said
    assert 'callboard_tokens_total{model="scripted",type="input"} 1000' in said
    assert "Mrs Smith" not in said
