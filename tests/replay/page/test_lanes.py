"""The lanes: the axis that they begin with, overlapping calls, the waterfall, and the curve of the use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.addresses import is_agent
from callboard.replay.exports.writing import Job, export
from callboard.replay.reading import Source
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.replay.page.forks import fork_log
from tests.replay.page.kit import write_page
from tests.replay.stories import asked_twice, poisoned_sum

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(120)]

# Every tool call of the session takes this long; nothing else takes any time.
SLOW = """(session, each) => {
    const spans = session.spans.filter(({ kind }) => kind === 'tool');
    session.times = session.times.map((_, seq) => each * spans.filter(({ last }) => last <= seq).length);
}"""
AXIS = "[callboard.lanes.axis, document.querySelector('#axis [aria-pressed=true]').dataset.name]"


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recording = Recording.open(MemoryReader(stored(golden("everything"))))
    return write_page(recording, tmp_path_factory.mktemp("page"))


def test_the_first_axis_is_the_clock_where_calls_were_waited_for(tab: Browser, page: Path) -> None:
    tab.open(page, "#1")
    assert tab.run(AXIS) == ["order", "order"]
    tab.run(f"({SLOW})(callboard.session, 600); callboard.use(callboard.session)")
    assert tab.run(AXIS) == ["time", "time"]
    # A pause of an hour between the calls is no wait for them, and the clock would show little else.
    tab.run(
        "callboard.session.times = callboard.session.times.map((at, seq) => at + (seq > 2 ? 4e6 : 0));"
        "callboard.use(callboard.session)"
    )
    assert tab.run(AXIS) == ["order", "order"]


def test_the_axis_follows_the_session_that_is_shown(tab: Browser, tmp_path: Path) -> None:
    log, name = fork_log()
    reader = MemoryReader(log)
    export("html", Job([Source.upto(reader, name), Source.upto(reader, "origin")]), tmp_path / "two.html")
    tab.open(tmp_path / "two.html")
    assert tab.run(AXIS) == ["order", "order"]
    tab.run(f"({SLOW})(callboard.beside.left, 600); callboard.turn()")
    assert tab.run(AXIS) == ["time", "time"]
    tab.run("callboard.turn()")
    assert tab.run(AXIS) == ["order", "order"]
    tab.run("document.querySelector('#axis [data-name=cause]').click()")
    for _ in range(2):  # what a person has chosen stays, in both sessions
        tab.run("callboard.turn()")
        assert tab.run(AXIS) == ["cause", "cause"]


def test_calls_that_overlap_have_levels_of_their_own(tab: Browser, page: Path) -> None:
    tab.open(page, "#1")
    lanes = tab.run(
        "callboard.lanes.spansOf.map((lane) => lane.map((one) =>"
        " [one.span.first, one.span.last, one.level, one.group.levels]))"
    )
    levels = set()
    for lane in lanes:
        for place, (first, last, level, count) in enumerate(lane):
            levels.add(level)
            assert level < count
            for other_first, other_last, other, _ in lane[:place]:
                assert not (other_last >= first and last >= other_first and other == level)
    assert len(levels) > 1


def test_the_story_is_a_waterfall_on_the_axis_of_time_only(tab: Browser, page: Path) -> None:
    tab.open(page, "#1")
    bars = "[...document.querySelectorAll('#list .took')].filter((one) => one.style.background).length"
    assert tab.run(bars) == 0
    tab.run("document.querySelector('#axis [data-name=time]').click()")
    assert tab.run(bars) == tab.run("document.querySelectorAll('#list .row').length") > 0
    # A row without tokens leaves their room to its words.
    used = "[...document.querySelectorAll('#list .used')].filter((one) => one.offsetWidth)"
    assert "" not in tab.run(f"{used}.map((one) => one.innerText)") != []
    tab.run("document.querySelector('#axis [data-name=order]').click()")
    assert tab.run(bars) == 0


def test_the_curve_ends_at_the_tokens_and_the_cost_of_all_replies(tab: Browser, page: Path) -> None:
    tab.open(page, "#1")
    tab.run("callboard.lanes.draw()")
    used = tab.run("callboard.lanes.used")
    recording = Recording.open(MemoryReader(stored(golden("everything"))))
    usages = [
        (event.seq, usage)
        for event in recording.events
        if event.kind == "ModelReplied" and (usage := getattr(event.body, "usage", None)) is not None
    ]
    assert [one["seq"] for one in used] == [seq for seq, _ in usages]
    assert used[-1]["tokens"] == sum(usage.tokens for _, usage in usages) > 0
    assert used[-1]["microUsd"] == sum(usage.micro_usd for _, usage in usages)


def test_lanes_that_nobody_sees_take_no_time(tab: Browser, page: Path) -> None:
    tab.open(page)  # with its summary: the lanes have no width
    tab.run("callboard.session.times[callboard.session.count] += 1e7; callboard.lanes.setAxis('time')")
    took = (
        "(() => { const at = performance.now(); callboard.lanes.draw(); return performance.now() - at; })()"
    )
    assert tab.run("callboard.lanes.container.clientWidth") == 0
    assert tab.run(took) < 1_000


@pytest.mark.parametrize("link", ["#1", "#12"])
def test_a_small_window_leaves_two_thirds_to_the_list(tab: Browser, tmp_path: Path, link: str) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path), link, width=800, height=600)
    height = "document.getElementById('%s').getBoundingClientRect().height"
    assert tab.run(height % "list") >= tab.run(height % "middle") * 2 / 3
    cut = (
        "[...document.querySelectorAll('#list .outcome')].filter((one) => one.scrollWidth > one.clientWidth)"
    )
    assert tab.run(f"{cut}.length") == 0


def test_the_events_of_an_answered_question_lie_in_the_lane_of_its_program(
    tab: Browser, tmp_path: Path
) -> None:
    recording = asked_twice()
    tab.open(write_page(recording, tmp_path), "#1")
    lanes = tab.run("callboard.lanes.eventsOf")
    assert lanes == [
        [event.seq for event in recording.events if any(map(is_agent, (event.sender, event.recipient)))]
    ]
    reply = [event.seq for event in recording.events if event.recipient == "host.2"][-1]
    tab.open(write_page(recording, tmp_path), f"#{reply}")
    assert tab.run(
        "[callboard.session.agentAt.get('host.2').kind, callboard.lanes.laneOf.get('host.2')]"
    ) == [
        "answered",
        0,
    ]
