"""The pictures of `docs/page.md`: each view of the page, drawn by the suite.

python -m tests.replay.page.screenshots     rewrite docs/img/page-*.png; `make screenshots` runs it
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.replay.exports.writing import Job, export
from callboard.replay.reading import Source
from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.scenario import START_MS
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, end_browser
from tests.pages import ROOT
from tests.replay.page.forks import fork_log
from tests.replay.page.kit import write_page
from tests.replay.page.workshop import workshop
from tests.replay.stories import poisoned_sum

FOLDER: Final = ROOT / "docs" / "img"
SIZE: Final = (1400, 820)
_FIXED: Final = "Date.prototype.toLocaleTimeString = () => '12:00:00'"
_DRAWN: Final = (
    "document.activeElement.blur();"
    " Promise.all([...document.images].map((one) => one.decode().catch(() => 0)))"
    ".then(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100))))"
)


class View(NamedTuple):
    """A picture: the session, and the code that leads to the view in its page."""

    session: Callable[[Path], Path]
    code: str


def _page(recording: Callable[[], Recording]) -> Callable[[Path], Path]:
    return lambda folder: write_page(recording(), folder)


def waited() -> Recording:
    """Record a session, and let its models and tools take seconds."""
    times: dict[int, int] = {0: 0}
    events: list[Event] = []
    dice = Random(4)
    for event in poisoned_sum().events:
        after = {"ModelReplied": dice.uniform(1.5, 9), "ToolReturned": dice.uniform(0.3, 4)}.get(
            event.kind, 0.02
        )
        times[event.seq] = max(times[event.seq - 1], times[event.cause] + int(after * 1_000))
        events.append(replace(event, at=START_MS + times[event.seq]))
    return recording_of(events, "one", "Refund twelve orders.")


def _two(folder: Path) -> Path:
    log, name = fork_log()
    reader = MemoryReader(log)
    page = folder / "page.html"
    export("html", Job([Source.upto(reader, name), Source.upto(reader, "origin")]), page)
    return page


def _on_finding(code: str) -> str:
    return f"callboard.select(callboard.session.findings[0].seq); {code}"


VIEWS: Final = {
    "page-summary": View(_page(poisoned_sum), "callboard.showSummary()"),
    "page": View(_page(poisoned_sum), _on_finding("callboard.detail.show('message')")),
    "page-conversation": View(_page(workshop), "callboard.read('host')"),
    "page-why": View(
        _page(poisoned_sum), _on_finding("callboard.setMode('events'); callboard.detail.show('why')")
    ),
    "page-time": View(
        _page(waited), _on_finding("callboard.setMode('story'); callboard.detail.show('message')")
    ),
    "page-two": View(_two, "callboard.refresh()"),
}
"""By the name of the picture, in the order of the page."""


def draw(tab: Browser, name: str, folder: Path, picture: Path) -> None:
    """Draw a view into a picture."""
    view = VIEWS[name]
    tab.open(view.session(folder), "", *SIZE)
    tab.run(f"{_FIXED}; {view.code}; 0")
    tab.run(_DRAWN)
    tab.screenshot(picture)


def main() -> None:
    """Rewrite every picture."""
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        tab.scheme("light")
        for name in VIEWS:
            draw(tab, name, Path(folder), FOLDER / f"{name}.png")
    end_browser()


if __name__ == "__main__":
    main()
