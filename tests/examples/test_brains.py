"""The examples of other frameworks print what their pages say."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ROOT, blocks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["langgraph_agent", "pydantic_ai_agent"])
def test_the_example_prints_what_its_page_says(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "examples" / f"{name.replace('_', '-')}.md").read_text()
    (printed,) = [block.text for block in blocks(page) if block.language == "text"]
    script = str(ROOT / "examples" / f"{name}.py")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    assert done.stdout.strip() == printed.strip()
