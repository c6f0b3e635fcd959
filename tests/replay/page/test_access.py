"""Accessible names, roles and contrast of the page's views, checked by axe-core in a browser."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from callboard.replay.exports.writing import Job, export
from callboard.replay.reading import Source
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.replay.page.forks import fork_log
from tests.replay.page.kit import write_page
from tests.replay.page.workshop import workshop
from tests.replay.stories import poisoned_sum

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

AXE = (files("axe_core_python") / "axe.min.js").read_text()
VIEWS = ("callboard.read('host.7')", "callboard.setMode('story')", "callboard.setMode('events')")
TABS = ("request", "state", "why", "json")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def violations(tab: Browser) -> list[str]:
    """Return the rules that the page breaks now, each with the elements that break it."""
    line = "`${id}: ${html.slice(0, 120)} ${any[0]?.message ?? ''}`"
    lines = f"({{ id, nodes }}) => nodes.map(({{ html, any }}) => {line})"
    found = tab.run(f"axe.run().then(({{ violations }}) => violations.flatMap({lines}))")
    return [str(one) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_of_a_session_breaks_a_rule(tab: Browser, tmp_path: Path, scheme: str) -> None:
    tab.scheme(scheme)
    tab.open(write_page(poisoned_sum(), tmp_path))
    tab.run(f"{AXE}; 0")
    assert violations(tab) == []
    for view in VIEWS:
        tab.run(f"{view}; 0")
        assert violations(tab) == [], view
    for name in TABS:
        tab.run(f"callboard.detail.show('{name}'); 0")
        assert violations(tab) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_edits_and_images_break_no_rule(tab: Browser, tmp_path: Path, scheme: str) -> None:
    tab.scheme(scheme)
    tab.open(write_page(workshop(), tmp_path))
    tab.run(f"{AXE}; callboard.read('host'); 0")
    assert tab.run("document.querySelectorAll('#reading :is(.lines, img)').length") > 3
    assert violations(tab) == []


def test_two_sessions_break_no_rule(tab: Browser, tmp_path: Path) -> None:
    log, name = fork_log()
    reader = MemoryReader(log)
    export("html", Job([Source.upto(reader, name), Source.upto(reader, "origin")]), tmp_path / "page.html")
    tab.open(tmp_path / "page.html")
    tab.run(f"{AXE}; 0")
    assert violations(tab) == []


def test_axe_sees_a_button_without_a_name(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    tab.run(f"{AXE}; document.getElementById('top').append(document.createElement('button')); 0")
    assert any(one.startswith("button-name") for one in violations(tab))


def test_agents_and_rows_can_be_chosen_by_keys_and_are_told(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path), "#2")
    chosen = (
        "(({ id }) => { const at = document.getElementById(id).getAttribute('aria-activedescendant');"
        " const row = document.getElementById(at); return [row.role, row.ariaSelected, row.textContent] })"
    )
    tab.run("document.getElementById('tree').focus()")
    for key, agent in (("ArrowDown", "host.1"), ("End", "host.12"), ("ArrowUp", "host.11"), ("Home", "host")):
        tab.press(key)
        role, is_chosen, text = tab.run(f"{chosen}({{ id: 'tree' }})")
        assert (tab.run("callboard.agent"), role, is_chosen) == (agent, "option", "true")
        assert f"{agent} " in text
    tab.run("document.getElementById('list').focus()")
    tab.press("ArrowDown")
    first = tab.run(f"{chosen}({{ id: 'list' }})")
    tab.press("ArrowDown")
    second = tab.run(f"{chosen}({{ id: 'list' }})")
    assert first != second
    assert {first[1], second[1]} == {"true"}
    assert tab.run("document.querySelectorAll('#list [aria-selected=true]').length") == 1
