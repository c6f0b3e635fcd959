"""Every view of old sessions, of one with a value 100,000 times, and of a session of 50,000 events."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from callboard import Agent, call, say, tool
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.exports.writing import Job, export
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Step
from tests.browser import Browser, browser, needs_browser
from tests.golden import FOLDER, golden, stored
from tests.pages import ROOT
from tests.replay.page.kit import write_page
from tests.replay.stories import endless_loop, poisoned_sum, record

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

GOLDENS = sorted(FOLDER.glob("rules-*/*.jsonl"))
MODES = ("story", "events", "talk")
TABS = ("message", "request", "state", "why", "json")
ELEMENTS = "document.querySelectorAll('*').length"
ELEMENTS_MAX = 564
TIMES = 100_000
FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long")
    made = [sys.executable, str(ROOT / "benchmarks" / "reading.py"), str(folder / "log.db")]
    subprocess.run([*made, "--events", "50000", "--record"], check=True, stdout=subprocess.DEVNULL)
    with Recording.open(folder / "log.db") as recording:
        assert len(recording.events) > 50_000
        return write_page(recording, folder)


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_golden_session_opens_in_every_view(tab: Browser, tmp_path: Path, path: Path) -> None:
    recording = Recording.open(MemoryReader(stored(golden(path.stem, int(path.parent.name[-1])))))
    tab.console.clear()
    tab.open(write_page(recording, tmp_path))
    count = len(recording.events)
    assert tab.run("callboard.session.count") == count
    tab.run("document.querySelectorAll('#summary .more').forEach((one) => one.click())")
    tab.run("history.replaceState = () => {}")  # a browser slows down a page that calls it all the time
    for mode, views in (("story", TABS), ("events", TABS[:1]), ("talk", TABS[:1])):
        for view in views:
            tab.run(
                f"callboard.setMode('{mode}'); callboard.detail.show('{view}');"
                f"for (let seq = 1; seq <= {count}; seq += {1 + count // 25}) callboard.select(seq);"
                "for (const one of document.querySelectorAll('#detail details')) one.open = true;"
            )
    for node in [node for _, node in recording.tree().walk()]:
        opened = "for (const one of document.querySelectorAll('#reading details')) one.open = true;"
        tab.run(f"callboard.read({json.dumps(node.address)}); {opened}")
        assert node.address in tab.run("document.getElementById('reading').textContent")
    tab.run(FRAME)
    assert tab.console == []


def most_elements(
    tab: Browser, modes: Sequence[str], seqs: Sequence[int], sides: Sequence[str] = ("",)
) -> dict[str, int]:
    """Look at events in every view and return the most elements that the page had in each."""
    views = [*TABS, *(["beside"] if len(sides) > 1 else [])]
    session = "{ session: callboard.beside[side] }" if len(sides) > 1 else "{}"
    found = tab.run(f"""(async () => {{
        const most = {{}};
        for (const mode of {list(modes)}) {{
            callboard.setMode(mode);
            await {FRAME};
            for (const view of {views}) for (const side of {list(sides)}) for (const seq of {list(seqs)}) {{
                callboard.detail.show(view);
                callboard.select(seq, {session});
                if (seq === {seqs[0]}) await {FRAME};
                most[`${{mode}} ${{view}}`] = Math.max(most[`${{mode}} ${{view}}`] ?? 0, {ELEMENTS});
            }}
        }}
        return most;
    }})()""")
    assert min(found.values()) > 100
    return {str(view): int(count) for view, count in found.items()}


def test_the_source_of_a_value_that_occurs_100_000_times_is_found(tab: Browser, tmp_path: Path) -> None:
    @tool(effect="read")
    def prices() -> str:
        """Return all prices."""
        return "a price of 41,900 cents; " * TIMES

    def policy(request: ModelRequest) -> Step:
        return call("prices") if request.turn == 1 else say("It is 41900 cents.")

    recording = record(policy, Agent("host", tools=[prices]), "How much?")
    tab.console.clear()
    tab.open(write_page(recording, tmp_path))
    reply = [event.seq for event in recording.events if event.kind == "ModelReplied"][-1]
    result = next(event.seq for event in recording.events if event.kind == "ToolReturned")
    assert [event.seq for event in recording.why(reply, "41900").source] == [reply, result]
    assert tab.run(f"callboard.sourceOf(callboard.session, {reply}, '41900').way") == [reply, result]
    assert tab.run("(callboard.search('41,900'), callboard.found)") == [result]
    tab.run("callboard.search('')")
    assert max(most_elements(tab, MODES, [result]).values()) <= ELEMENTS_MAX
    assert tab.console == []


def test_no_view_of_a_long_session_has_more_elements_than_a_browser_draws_at_once(
    tab: Browser, long_page: Path
) -> None:
    tab.open(long_page)
    most = {"summary": tab.run(ELEMENTS), **most_elements(tab, MODES, [1, 20, 25_000, 25_003, 50_000])}
    assert {view: count for view, count in most.items() if count > ELEMENTS_MAX} == {}


def test_no_view_of_two_unrelated_sessions_has_more_elements(tab: Browser, tmp_path: Path) -> None:
    sources = [recording._source for recording in (endless_loop(), poisoned_sum())]
    export("html", Job(sources), tmp_path / "two.html")
    tab.console.clear()
    tab.open(tmp_path / "two.html")
    assert tab.run("callboard.beside.differences.length") > 20
    most = most_elements(tab, ["pairs", *MODES], [30, 60], ["left", "right"])
    assert {view: count for view, count in most.items() if count > ELEMENTS_MAX} == {}
    assert tab.console == []
