"""The pictures in docs/page.md: every view has one, and the suite draws them all."""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.pages import ROOT
from tests.replay.page.screenshots import FOLDER, SIZE, VIEWS, draw


def size_of(picture: bytes) -> tuple[int, int]:
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def test_the_page_of_the_docs_shows_every_view_that_can_be_drawn_again() -> None:
    shown = re.findall(r"!\[[^\]]{20,}\]\(img/([\w-]+)\.png\)", (ROOT / "docs" / "page.md").read_text())
    assert sorted(shown) == sorted(VIEWS)
    for name in VIEWS:
        assert size_of((FOLDER / f"{name}.png").read_bytes()) == SIZE


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_drawn_in_light_and_in_dark(tab: Browser, tmp_path: Path, name: str) -> None:
    pictures = []
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        tab.console.clear()
        draw(tab, name, tmp_path, tmp_path / "picture.png")
        assert tab.console == []
        pictures.append((tmp_path / "picture.png").read_bytes())
    assert [size_of(picture) for picture in pictures] == [SIZE] * 2
    assert pictures[0] != pictures[1]
    assert len(tab.run("document.body.textContent")) > 500
