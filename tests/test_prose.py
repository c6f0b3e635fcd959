"""Docstrings and pages are in plain English: the list of odd words stays below a bound."""

import re
from pathlib import Path

import pytest

from tools.check_figures import read_limits
from tools.generate_docs import DOCS
from tools.generate_docs import PAGES as GENERATED
from tools.odd_words import ODD
from tools.prose_metrics import MEASURED, odd_lines, odd_per_1000, prose_of_folders
from tools.sources import ROOT

PAGE_BOUND = 0.5


def pages() -> list[Path]:
    """List the pages to measure: generated ones only once the code that they quote meets its goal."""
    root = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
    skipped = {DOCS / name for name in GENERATED} if read_limits()["odd"].held else set()
    return [*root, *sorted(set(DOCS.rglob("*.md")) - skipped)]


def prose_of_page(path: Path) -> str:
    """Return the text of a page without its code."""
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_docstrings_hold_few_odd_words() -> None:
    prose = prose_of_folders(*MEASURED)
    bound = read_limits()["odd"].checked
    odd = [one.where for one in prose.docstrings if ODD.search(one.text)]
    assert bound.holds(prose.odd), f"odd words {bound}: {' '.join(odd[:20])}"


def test_pages_hold_few_odd_words() -> None:
    text = "\n".join(prose_of_page(path) for path in pages())
    assert odd_per_1000(text) <= PAGE_BOUND, odd_lines(text)
