"""Two sessions in one page, in a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.replay.descriptions import words_of
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import shared_events
from callboard.replay.reading import Source
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.replay.page.forks import CHANGED, fork_log, origin_and_fork

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log, name = fork_log()
    path = tmp_path_factory.mktemp("two") / "page.html"
    reader = MemoryReader(log)
    export("html", Job([Source.upto(reader, name), Source.upto(reader, "origin")]), path)
    return path


def test_the_fork_is_shown_at_the_first_difference_which_is_pinned(tab: Browser, page: Path) -> None:
    tab.console.clear()
    tab.open(page)
    _, fork = origin_and_fork()
    assert tab.run("callboard.session.summary.session") == fork.session_id
    chosen = fork.event(tab.run("callboard.seq"))
    assert (chosen.kind, chosen.recipient) == ("ToolReturned", f"host.{CHANGED}")
    pinned = tab.run("document.querySelector('#compared .pin').textContent")
    assert "30 degrees → 999 degrees" in pinned
    assert "saved " in tab.run("document.querySelector('#compared .saved').textContent")
    assert tab.run("location.hash") == f"#beside-{chosen.seq}"
    assert tab.console == []


def test_each_row_has_the_pair_of_its_span(tab: Browser, page: Path) -> None:
    tab.open(page)
    parts = "row.state, row.left?.first, row.right?.first, row.left?.name, row.right?.name"
    rows = tab.run(f"callboard.pairs.rows.map((row) => [{parts}])")
    origin, fork = origin_and_fork()
    assert {row[1] for row in rows} - {None} == {span.first.seq for span in origin.spans()}
    assert {row[2] for row in rows} - {None} == {span.first.seq for span in fork.spans()}
    assert all(row[3] == row[4] for row in rows if row[1] and row[2])
    log, name = fork_log()
    reader = MemoryReader(log)
    shared = shared_events(Source.upto(reader, "origin"), Source.upto(reader, name))
    for state, left, right, *_ in rows:
        if state == "shared":
            assert left == right <= shared
    states = {row[0] for row in rows}
    assert {"shared", "differs"} <= states


def test_keys_lead_to_the_other_session_and_to_differences(tab: Browser, page: Path) -> None:
    tab.open(page)
    at = tab.run("callboard.seq")
    tab.press("y")
    assert tab.run("callboard.session.summary.session") == "origin"
    assert tab.run("callboard.session.kinds[callboard.seq]") == "ToolReturned"
    assert tab.run("location.hash") == f"#{tab.run('callboard.seq')}"
    tab.press("y")
    assert tab.run("callboard.seq") == at
    tab.press("b")
    assert "999 degrees" in tab.run("document.querySelector('#detail .body').textContent")
    assert "30 degrees" in tab.run("document.querySelector('#detail .body').textContent")
    tab.press("u")
    assert tab.run("callboard.beside.differs(callboard.session, callboard.seq)") or tab.run(
        "callboard.pairs.rows[callboard.pairs.current].state"
    ) in ("differs", "only")
    tab.run("history.back(); new Promise((done) => setTimeout(done, 200))")
    assert tab.console == []


def test_a_link_leads_to_an_event_of_either_session(tab: Browser, page: Path) -> None:
    tab.open(page, "#7")
    assert tab.run("[callboard.session.summary.session, callboard.seq]") == ["origin", 7]
    tab.open(page, "#beside-9")
    assert tab.run("callboard.seq") == 9
    assert tab.run("callboard.session.summary.session") != "origin"


def test_the_states_and_requests_of_the_fork_are_the_recorded_ones(tab: Browser, page: Path) -> None:
    tab.open(page, "#beside-1")
    _, fork = origin_and_fork()
    for event in fork.events:
        if event.kind == "CallModel":
            found = tab.run(f"callboard.states.requestOf({event.seq}).messages.length")
            assert found == len(fork.request(event.seq).messages)


def test_every_view_of_both_sessions_works_without_an_error(tab: Browser, page: Path) -> None:
    tab.console.clear()
    tab.open(page)
    for key in "vvvesrwxbjkuUyesrwxbjkGgfdcot?":
        tab.press(key)
    tab.run("document.getElementById('dialog').close()")
    tab.run("document.querySelector('#compared button').click()")
    assert "model calls" in tab.run("document.getElementById('dialog').textContent")
    links = tab.run("[...document.links].map((link) => link.getAttribute('href'))")
    assert links
    assert tab.console == []
    assert tab.run("document.querySelectorAll('*').length") < 3_000


def test_every_difference_is_on_the_first_screen_red_beside_green(tab: Browser, page: Path) -> None:
    tab.open(page)
    mine, theirs = origin_and_fork()
    rows = tab.run(
        "[...document.querySelectorAll('#differences .row')].map((row) =>"
        " ['del', 'ins'].map((name) => row.querySelector(name)).map((one) =>"
        " [one.textContent, getComputedStyle(one).backgroundColor, one.getBoundingClientRect().bottom]))"
    )
    found = mine.diff(theirs)
    assert len(rows) == len(found.differences) > 3
    assert ["30 degrees", "999 degrees"] in [[before[0], after[0]] for before, after in rows]
    for one, (before, after) in zip(found.differences, rows, strict=True):
        if one.seqs[0] and one.seqs[1]:
            assert before[0] != after[0]
            assert before[1] != after[1]
        else:
            alone, side = (before, mine) if one.seqs[0] else (after, theirs)
            said = words_of(side.event(max(one.seqs)).body)
            assert alone[0][:100] == " ".join(said.split())[:100]
        assert max(before[2], after[2]) < 900
    tab.run("document.querySelectorAll('#differences .row')[0].click()")
    assert tab.run("callboard.seq") == found.differences[0].seqs[1]
    assert tab.run("document.querySelector('#differences .chosen').dataset.index") == "0"
