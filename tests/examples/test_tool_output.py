"""The example of tool output says what its page shows."""

import os
import subprocess
import sys
from pathlib import Path

from callboard.replay import Recording
from tests.processes import import_path

ROOT = Path(__file__).parents[2]


def test_each_format_has_its_cost_and_the_repeated_call_is_a_hit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "tool_output.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": import_path(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    page = (ROOT / "docs" / "examples" / "tool-output.md").read_text()
    assert f"```text\n{done.stdout}```" in page
    with Recording.open(tmp_path / "tool_output.db") as recording:
        assert recording.verify().is_ok
