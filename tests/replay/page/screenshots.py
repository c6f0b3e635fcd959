"""The pictures of `docs/page.md`: each view of the page, drawn by the suite.

python -m tests.replay.page.screenshots     rewrite docs/img/page-*.png; `make screenshots` runs it
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from callboard.actors.protocol.events import Event
from callboard.replay.exports.writing import Job, export
from callboard.replay.page.building import LivePage, booted
from callboard.replay.page.sessions import COLUMNS, sessions_page
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
    """A picture: the session, and the code that leads to the view in its page.

    answers: of the server of a page that has one, by the name that it asks for.
    """

    session: Callable[[Path], Path]
    code: str
    answers: Mapping[str, object] = {}


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


_WORDS: Final = {"token": "-", "by": "ann", "has_list": True, "session": "one", "logs": ["callboard.db"]}
_QUESTION: Final = {
    "id": "one#7", "session": "one", "seq": 7, "address": "host.3", "profile": "refunder", "tool": "refund",
    "effect": "write", "arguments": {"order": "A-1007", "cents": 4_990}, "is_repeat": False, "is_fork": False,
    "same": 0, "expires_at_ms": None, "forms": {"account": {"message": "To which account?", "schema": {
        "properties": {"iban": {"type": "string", "title": "IBAN"}}, "required": ["iban"]}}},
}  # fmt: skip
_COST: Final = {
    "base": 40, "agents": ["host.3", "host"], "calls": 4, "tools": 1, "tokens": 4_200, "micro_usd": 21_000,
    "used_tokens": 8_840, "used_micro_usd": 44_200, "tokens_max": 9_160, "micro_usd_max": 45_800,
}  # fmt: skip


def _served(folder: Path) -> Path:
    source = poisoned_sum()._source
    page = folder / "page.html"
    page.write_bytes(b"".join(LivePage(source.reader, source.session_id).page(booted(_WORDS))))
    return page


def _list(folder: Path) -> Path:
    page = folder / "page.html"
    page.write_bytes(sessions_page(booted(_WORDS)))
    return page


_PROMPTS: Final = (
    "Refund twelve orders.",
    "Which test framework is used?",
    "Sum up the week.",
    "Plan the trip.",
)
_KINDS: Final = (("answered", "ok"), ("reported", "ok"), ("budget", "failed"), ("cancelled", "cancelled"))


def _rows() -> list[list[object]]:
    """Return the rows of a list of sessions."""
    dice = Random(7)
    return [_row(number, dice) for number in range(23)]


def _row(number: int, dice: Random) -> list[object]:
    kind, outcome = ("", "") if number == 0 else _KINDS[dice.choice([0, 0, 0, 1, 1, 2, 3])]
    at, used = START_MS - 1_700_000 * number, dice.randrange(2_000, 90_000)
    status = "closed" if number else "unfinished"
    about = [f"2026010{number % 9}-{number:08}", _PROMPTS[number % 4], status, kind, outcome, "host"]
    figures = [dice.randrange(20, 900), at, at + dice.randrange(3_000, 700_000), used, used * 5, 0]
    fork = ["20260101-origin", 40] if number in (2, 3) else ["", 0]
    return [*about, *figures, ["nightly"] if number % 3 else ["user:ann"], *fork]


def _findings() -> dict[str, object]:
    rows = enumerate(_rows())
    return {str(row[0]): [1, 0, ""] if row[4] == "failed" else [0, int(n % 5 == 1), ""] for n, row in rows}


_LISTED: Final = {"rows": {"columns": COLUMNS, "rows": _rows()}, "findings": _findings()}
_FORK: Final = (
    "callboard.select(callboard.session.kinds.indexOf('ToolReturned')); callboard.fork(callboard.seq)"
)
_PLAIN: Final = {**_QUESTION, "forms": {}}
_CHANGE: Final = (
    f"callboard.questions.take([{json.dumps(_PLAIN)}]); callboard.questions.first();"
    "document.querySelector('.change').open = true;"
    "const text = document.querySelector('.change textarea'); text.value = text.value.replace('4990', '499');"
    "text.dispatchEvent(new Event('input'))"
)
_HELD: Final = {
    str(row[0]): [1 + n % 4, 12 + 7 * n, "… late: refund 49.90 to the card of the bu…", "ToolReturned"]
    for n, row in enumerate(_rows())
    if n % 4 == 0
}
_SEARCH: Final = "document.getElementById('search').value = 'refund 49.90'; callboard.searchEvents()"
_VARIANT: Final = {
    "session": "one", "outcome": "answered", "turns": 7, "called": 28, "reused": 0, "tokens": 31_400,
    "billed_tokens": 31_400, "billed_micro_usd": 94_000, "text": "Refunded all twelve.", "status": "closed",
}  # fmt: skip
_FORKED: Final = [
    {**_VARIANT, "session": f"one-fork-{n}", "at": 40, "called": 4, "reused": 24, "billed_tokens": 4_200 + n,
     "billed_micro_usd": 12_600, "status": "unfinished" if n == 1 else "closed"}
    for n in (1, 2, 3)
]  # fmt: skip
_VARIANTS: Final = {"origin": _VARIANT, "forks": _FORKED, "left_out": 0}
_ASK: Final = f"callboard.questions.take([{json.dumps(_QUESTION)}]); callboard.questions.first()"


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
    "page-sessions": View(_list, "callboard.find()", _LISTED),
    "page-search": View(_list, _SEARCH, {**_LISTED, "holding": _HELD}),
    "page-approval": View(_served, _ASK, {"waiting": []}),
    "page-change": View(_served, _CHANGE, {"waiting": []}),
    "page-variants": View(
        _served,
        "dispatchEvent(new KeyboardEvent('keydown', { key: 'V' }))",
        {"waiting": [], "variants": _VARIANTS},
    ),
    "page-fork": View(_served, _FORK, {"waiting": [], "cost": _COST}),
}
"""By the name of the picture, in the order of the page."""


def draw(tab: Browser, name: str, folder: Path, picture: Path) -> None:
    """Draw a view into a picture."""
    view = VIEWS[name]
    with _answering(tab, view.answers):
        tab.open(view.session(folder), "", *SIZE)
        tab.run(f"{_FIXED}; new Promise((done) => setTimeout(done, 100))")  # its server has answered
        tab.run(f"{view.code}; 0")
        if view.answers:
            tab.run("new Promise((done) => setTimeout(done, 400))")  # it has asked for more
        tab.run(_DRAWN)
        tab.screenshot(picture)


@contextmanager
def _answering(tab: Browser, answers: Mapping[str, object]) -> Iterator[None]:
    """Let a page in a file ask a server that gives these answers, and nothing for other names."""
    if not answers:
        yield
        return
    given = json.dumps({name: json.dumps(value) for name, value in answers.items()})
    known = f"({given})[String(address).split('?')[0]]"
    answer = f"new Response({known} ?? null, {{ status: {known} === undefined ? 204 : 200 }})"
    source = (
        f"globalThis.fetch = async (address) => {answer}; Date.prototype.toLocaleString = () => '1/1/2026'"
    )
    made = tab.call("Page.addScriptToEvaluateOnNewDocument", source=source)
    try:
        yield
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=made["identifier"])


def main() -> None:
    """Rewrite every picture."""
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        tab.scheme("light")
        for name in VIEWS:
            draw(tab, name, Path(folder), FOLDER / f"{name}.png")
    end_browser()


if __name__ == "__main__":
    main()
