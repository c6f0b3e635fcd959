"""The examples and their pages: short files, and pages that show parts of them as they are."""

from pathlib import Path

from tests.pages import ROOT, blocks
from tests.tables import table

EXAMPLES = ROOT / "examples"
READER = EXAMPLES / "regreader"
"""A package of its own, and no short program."""
ALL = [path for path in sorted(EXAMPLES.rglob("*")) if path.suffix in (".py", ".ipynb")]
FILES = [path for path in ALL if READER not in path.parents]
PAGES = sorted((ROOT / "docs" / "examples").glob("*.md"))
LINES_MAX = 120


@table("path", [path for path in FILES if path.suffix == ".py"], ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LINES_MAX


@table("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_code_as_it_is(page: Path) -> None:
    code = "\n".join(path.read_text() for path in FILES)
    for block in blocks(page.read_text()):
        assert block.language in ("sh", "text") or block.text in code, f"{page.name}:{block.line}"


def test_every_example_has_a_page() -> None:
    shown = "\n".join(page.read_text() for page in PAGES)
    places = {path.relative_to(EXAMPLES).parts[0] for path in ALL}
    assert len(places) == len(PAGES) == 30
    assert all(f"`examples/{place}" in shown for place in places)
