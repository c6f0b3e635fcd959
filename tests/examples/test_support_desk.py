"""The example of a support desk hands off, waits for an approval, and refunds."""

import runpy

import pytest

from tests.pages import ROOT, blocks


@pytest.mark.slow
def test_the_example_prints_what_its_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    # Here and not in a process of its own, which would load the framework once more.
    runpy.run_path(str(ROOT / "examples" / "support_desk.py"), run_name="__main__")
    page = (ROOT / "docs" / "examples" / "support-desk.md").read_text()
    (shown,) = (block.text for block in blocks(page) if block.language == "text")
    assert capsys.readouterr().out.strip() == shown.strip()
