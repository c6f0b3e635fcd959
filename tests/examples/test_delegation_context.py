import runpy

import pytest

from tests.pages import ROOT, blocks


def test_each_sub_agent_is_told_what_its_context_says(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "delegation_context.py"), run_name="__main__")
    page = (ROOT / "docs" / "examples" / "delegation-context.md").read_text()
    (shown,) = [block.text for block in blocks(page) if block.language == "text"]
    assert capsys.readouterr().out.strip() == shown.strip()
