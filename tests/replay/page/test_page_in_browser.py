"""The page in a browser: it shows the same as Python, and is fast and small enough to use."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.port_messages import CallModel, ToolReturned
from callboard.replay.recording import Recording
from callboard.replay.search import Query
from callboard.replay.steps import essential
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.replay.diagnosis.user_stories import gave_up_a_task
from tests.replay.logs import survey
from tests.replay.page.kit import write_page
from tests.replay.stories import endless_loop, fork_of_a_fork, ignored_report, poisoned_sum, record
from tests.replay.test_why_sources import reader, sensed

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

ELEMENTS_MAX = 3_000
SESSIONS: dict[str, Callable[[], Recording]] = {
    "survey": lambda: Recording.open(MemoryReader(survey())),
    "everything": lambda: Recording.open(MemoryReader(stored(golden("everything")))),
    "ignored": ignored_report,
    "poisoned": poisoned_sum,
}


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@cache
def recording_of(name: str) -> Recording:
    return SESSIONS[name]()


@pytest.fixture(scope="module", params=SESSIONS)
def shown(request: pytest.FixtureRequest, tab: Browser, tmp_path_factory: Any) -> tuple[Browser, Recording]:
    recording = recording_of(request.param)
    tab.open(write_page(recording, tmp_path_factory.mktemp("page")))
    return tab, recording


def in_page(tab: Browser, code: str) -> Any:
    """Run an expression and return its value as JSON, so that maps and holes are seen."""
    return json.loads(tab.run(f"JSON.stringify({code})"))


def test_the_request_of_every_model_call_is_the_recorded_one(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    for seq in [event.seq for event in recording.events if isinstance(event.body, CallModel)]:
        expected = json.loads(bytes(recording.request(seq).body()))
        found = in_page(tab, f"callboard.states.requestOf({seq})")
        assert [one["value"] for one in found["messages"]] == expected["messages"]
        for name in ("system", "tools"):
            assert found[name] == expected[name]
        assert (found["model"]["name"], found["forced"]) == (expected["model"], expected["force_tool"])


def test_new_messages_of_a_request_are_those_of_no_earlier_one(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    seen: dict[str, int] = {}
    for event in recording.events:
        if isinstance(event.body, CallModel):
            found = in_page(tab, f"callboard.states.requestOf({event.seq})")
            is_new = [one["isNew"] for one in found["messages"]]
            before = seen.get(event.body.agent, 0)
            assert is_new == [place >= before for place in range(len(is_new))]
            seen[event.body.agent] = len(is_new)


def test_why_is_the_same_as_in_python(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    seqs = range(1, len(recording.events) + 1, 1 if len(recording.events) < 200 else 5)
    both = "[callboard.wayTo(callboard.session, seq), callboard.partsOf(callboard.session, seq)]"
    code = f"{list(seqs)}.map((seq) => {both})"
    for seq, (way, parts) in zip(seqs, in_page(tab, code), strict=True):
        why = recording.why(seq)
        assert way == [one.seq for one in why.way], seq
        assert parts == [one.seq for one in why.parts], seq


def test_a_long_way_keeps_the_same_events_as_in_python(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    events = list(recording.events)[:400]
    seqs = [event.seq for event in events]
    for most in (4, 12, 60, 1_000):
        found = in_page(tab, f"callboard.essential(callboard.session, {seqs}, {most})")
        assert found == [event.seq for event in essential(events, most)], most


def test_a_way_shows_each_failure_and_all_events_on_demand(tab: Browser, tmp_path: Path) -> None:
    recording = Recording.open(MemoryReader(stored(golden("everything"))))
    tab.open(write_page(recording, tmp_path))
    ended = next(event.seq for event in recording.events if event.kind == "AskEnded")
    way = [one.seq for one in recording.why(ended).way]
    lines = "[...document.querySelectorAll('#detail .line')].map((one) => parseInt(one.textContent.trim()))"
    tab.run(f"callboard.select({ended}); callboard.detail.show('why')")
    shown = tab.run(lines)
    assert len(shown) < len(way)
    assert {one.seq for one in essential(recording.why(ended).way, 12)} <= set(shown)
    for _ in way:
        tab.run("document.querySelector('#detail .between')?.click()")
    assert set(way) <= set(tab.run(lines))


OTHERWISE = ("$1,203", "49.00 euros", "17.4 %", "May 20, 2024", "Aarav Ahmed", "2024-06-01", "3 px", "$40.50")


def spelled_otherwise() -> Recording:
    """Record a host that writes each value in another way than the tool."""
    read = {
        "total": 1203,
        "cents": 4900,
        "share": 0.174,
        "on": "2024-05-20T08:00",
        "user": "aarav_ahmed_6699",
    }
    policy, look = reader(
        [[json.dumps(read | {"due": "1 June 2024", "n": 3, "paid": 40.5})]], ", ".join(OTHERWISE)
    )
    return record(policy, Agent("host", tools=[look]), "Go.")


@pytest.mark.parametrize(
    ("make", "texts"),
    [
        (ignored_report, ("41900", "41,900", "refund", "efun", "A-1", "1", "customer")),
        (lambda: fork_of_a_fork({("host", 1, 0): "Rome: rain"}), ("rain", "Stay")),
        (lambda: fork_of_a_fork({("host", 2, -1): "Stay at home."}), ("sun", "home")),
        (gave_up_a_task, ("objection",)),
        (spelled_otherwise, OTHERWISE),
    ],
    ids=["ignored", "changed result", "changed reply", "gave up", "spelled otherwise"],
)
def test_the_source_of_a_value_is_the_same_as_in_python(
    tab: Browser, tmp_path: Path, make: Callable[[], Recording], texts: tuple[str, ...]
) -> None:
    recording = make()
    tab.open(write_page(recording, tmp_path))
    for text in texts:
        for seq in range(1, len(recording.events) + 1):
            found = in_page(tab, f"callboard.sourceOf(callboard.session, {seq}, {json.dumps(text)})")
            try:
                why = recording.why(seq, text)
            except UnknownName:
                assert found["way"] == []
                continue
            assert found["way"] == [one.seq for one in why.source], (seq, text)
            assert set(found["also"]) == {one.seq for one in why.also_in}, (seq, text)
            assert found["madeOf"] == [one.seq for one in why.made_of], (seq, text)
            assert found["written"] == why.written, (seq, text)


@pytest.mark.parametrize("seed", range(4))
def test_a_small_number_has_the_same_source_as_in_python(tab: Browser, tmp_path: Path, seed: int) -> None:
    planted = sensed(seed)
    tab.open(write_page(planted.recording, tmp_path))
    asked = f"callboard.sourceOf(callboard.session, {planted.answer}, {json.dumps(planted.value)})"
    found = in_page(tab, asked)
    assert found["way"] == [one.seq for one in planted.why.source]
    assert found["also"] == [one.seq for one in planted.why.also_in]


def test_a_search_finds_at_least_the_events_that_python_finds(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    for text in ("files", "Find", "héllo", '"', "refund_cents", "nowhere in it"):
        expected = [match.row.seq for match in recording.search(Query(text=text))]
        found = in_page(tab, f"(callboard.search({json.dumps(text)}), callboard.found)")
        assert set(expected) <= set(found), text
    assert in_page(tab, "(callboard.search('kind:CallModel'), callboard.found)") == [
        event.seq for event in recording.events if isinstance(event.body, CallModel)
    ]
    tab.run("callboard.search('')")


def test_links_keys_and_the_back_button_lead_to_events(tab: Browser, tmp_path: Path) -> None:
    recording = recording_of("poisoned")
    page = write_page(recording, tmp_path)
    tab.open(page, "#12")
    assert tab.run("callboard.seq") == 12
    tab.press("G")
    assert tab.run("location.hash") == f"#{len(recording.events)}"
    tab.press("g")
    tab.press("d")
    assert tab.run("callboard.session.kinds[callboard.seq]") == "Delegate"
    delegated = tab.run("callboard.seq")
    tab.press("c")
    assert tab.run("callboard.seq") == recording.event(delegated).cause
    tab.run("history.back(); new Promise((done) => addEventListener('popstate', done, { once: true }))")
    assert tab.run("callboard.seq") == delegated
    tab.press("/")
    for letter in "kind:ToolReturned":
        tab.press(letter)
    tab.run("new Promise((done) => setTimeout(done, 200))")
    found = tab.run("document.getElementById('found').textContent")
    assert found.startswith(f"{sum(event.kind == 'ToolReturned' for event in recording.events)} of")
    assert tab.run("document.querySelectorAll('.finding').length") == len(recording.diagnose())


def test_the_story_tells_the_tokens_of_turns_and_delegations(shown: tuple[Browser, Recording]) -> None:
    tab, recording = shown
    found = in_page(tab, "callboard.session.spans.map((one) => callboard.usedBy(callboard.session, one))")
    for span, used in zip(recording.spans(), found, strict=True):
        usage = getattr(recording.event(span.last.seq).body, "usage", None)
        tokens = usage.tokens if usage is not None and span.kind in ("turn", "delegation") else 0
        assert tokens < 10_000, "longer numbers are rounded"
        assert used.split(" ")[0] == (f"{tokens:,}" if tokens else "")


def test_a_note_is_kept_by_the_browser_and_by_a_file(tab: Browser, tmp_path: Path) -> None:
    page = write_page(recording_of("survey"), tmp_path)
    tab.open(page, "#5")
    tab.run("callboard.detail.note.value = 'look <b>here</b>'")
    tab.run("callboard.detail.note.dispatchEvent(new Event('change'))")
    tab.open(page, "#5")
    assert tab.run("callboard.detail.note.value") == "look <b>here</b>"
    load = "callboard.notes.load(new File([%s], 'n.json'))"
    text = json.dumps({"session": "one", "notes": {"7": "from a file", "x": 1}})
    assert tab.run(load % json.dumps(text)) is True
    assert tab.run("JSON.stringify(callboard.notes.plain())") == '{"5":"look <b>here</b>","7":"from a file"}'
    for wrong in ('{"session":"another","notes":{}}', "no json"):
        assert tab.run(load % json.dumps(wrong)) is False


def test_the_page_asks_for_nothing_but_itself(tab: Browser, tmp_path: Path) -> None:
    tab.requests.clear()
    tab.console.clear()
    page = write_page(recording_of("poisoned"), tmp_path)
    tab.open(page)
    for key in "dfrswxvot?":
        tab.press(key)
    assert {one for one in tab.requests if one != "about:blank"} == {page.as_uri()}
    assert tab.console == []


def test_a_log_of_thousands_of_events_is_scrolled_with_few_elements(tab: Browser, tmp_path: Path) -> None:
    page = write_page(endless_loop(), tmp_path)
    tab.open(page)
    tab.run("callboard.setMode('events')")
    most = 0
    scroll = "(list => (list.scrollTop = list.scrollHeight * %f))(document.getElementById('list'))"
    for share in (part / 10 for part in range(11)):
        tab.run(scroll % share)
        tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        tab.run(f"callboard.select(1 + Math.floor((callboard.session.count - 1) * {share}))")
        for view in ("message", "request", "state", "why"):
            tab.run(f"callboard.detail.show('{view}')")
            most = max(most, tab.run("document.querySelectorAll('*').length"))
    assert 100 < most <= ELEMENTS_MAX


def test_a_session_without_events_is_a_page(tab: Browser, tmp_path: Path) -> None:
    async def create() -> MemoryLog:
        log = MemoryLog()
        await log.open()
        await log.create("empty", 1_700_000_000_000, "nothing yet")
        return log

    tab.console.clear()
    tab.open(write_page(Recording.open(MemoryReader(asyncio.run(create()))), tmp_path))
    for key in "jkgGfdncrswxvo+t":
        tab.press(key)
    assert tab.run("document.getElementById('session').textContent") == "nothing yet"
    assert tab.console == []


def test_an_agent_that_never_began_can_be_chosen(tab: Browser, tmp_path: Path) -> None:
    recording = recording_of("everything")
    tab.open(write_page(recording, tmp_path))
    tab.console.clear()
    received = {event.recipient for event in recording.events}
    denied = [node.address for _, node in recording.tree().walk() if node.address not in received]
    assert denied
    tab.run(f"callboard.chooseAgent('{denied[0]}')")
    assert tab.run("callboard.agent") == denied[0]
    assert tab.run("document.querySelector('.agent.chosen').textContent").startswith(f"✗{denied[0]}")
    assert tab.console == []


def test_a_page_that_cannot_be_read_says_so(tab: Browser, tmp_path: Path) -> None:
    page = write_page(recording_of("survey"), tmp_path)
    text = page.read_text()
    page.write_text(text.replace('id="data">', 'id="data">AAAA', 1))
    with pytest.raises(AssertionError):
        tab.open(page)
    assert "cannot be read" in tab.run("document.getElementById('figures').textContent")


def test_a_changed_answer_is_marked_as_such_and_the_fork_has_the_outcome_that_it_shares(
    tab: Browser, tmp_path: Path
) -> None:
    recording = fork_of_a_fork({("host", 1, 0): "Rome: rain"})
    tab.open(write_page(recording, tmp_path))
    (returned,) = (event.seq for event in recording.events if isinstance(event.body, ToolReturned))
    tab.run(f"callboard.select({returned})")
    assert tab.run("document.querySelector('#detail .badge').textContent") == "changed for the fork"
    assert tab.run("document.querySelector('#outcome').textContent") == "answered"


def test_a_reused_answer_names_its_session(tab: Browser, tmp_path: Path) -> None:
    recording = fork_of_a_fork({("host", 2, -1): "Stay at home."}, at=2)
    tab.open(write_page(recording, tmp_path))
    (returned,) = (event for event in recording.events if isinstance(event.body, ToolReturned))
    assert isinstance(returned.body, ToolReturned)
    tab.run(f"callboard.select({returned.seq})")
    said = tab.run("document.querySelector('#detail .badge').textContent")
    assert said == f"reused from event {returned.body.reused} of one"
