"""Follow docs/testing.md and docs/explore.md in one folder, one after the other: each step works."""

from pathlib import Path

import pytest

from tests.pages import ROOT, Reader, blocks

PAGES = [ROOT / "docs" / "testing.md", ROOT / "docs" / "explore.md"]


@pytest.mark.slow
@pytest.mark.timeout(600)  # twenty processes, one after the other
def test_the_guide_works_as_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for page in PAGES:
        assert len(blocks(page.read_text())) > 5
        reader.follow_page(page)
