"""The summary that a page opens on, in a browser."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from callboard.replay.recording import Recording
from callboard.replay.testing.agents.scenario_arguments import recording_of
from callboard.replay.testing.sessions.scenario import START_MS
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.replay.diagnosis.healthy_programs import healthy_programs
from tests.replay.diagnosis.planted import capped, failed
from tests.replay.diagnosis.user_stories import by_a_program, silent_host
from tests.replay.page.kit import write_page
from tests.replay.stories import endless_loop, poisoned_sum

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

ELEMENTS_MAX = 564


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def text_of(tab: Browser) -> str:
    return str(tab.run("document.getElementById('summary').innerText"))


def test_a_page_opens_on_the_question_the_answer_the_figures_and_the_findings(
    tab: Browser, tmp_path: Path
) -> None:
    recording = poisoned_sum()
    tab.open(write_page(recording, tmp_path))
    shown = text_of(tab)
    tokens = sum(node.usage.tokens for _, node in recording.tree().walk())
    replies = sum(event.kind == "ModelReplied" for event in recording.events)
    for expected in (
        "Sum the refunds up.",
        "All refunds: 4650900 cents.",
        f"{tokens:,}",
        f"scripted ({replies} replies)",
    ):
        assert expected in shown
    for finding in recording.diagnose():
        assert finding.says in shown
        assert f"{finding.seq} {recording.event(finding.seq).kind}" in shown
    assert tab.run("document.getElementById('main').clientHeight") == 0
    assert tab.run("location.hash") == ""


def test_the_steps_of_a_program_are_no_replies_of_a_model(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(by_a_program(), tmp_path))
    assert "program:" not in text_of(tab)
    assert "0\nmodel calls" in text_of(tab)
    tab.run("callboard.read('host')")
    said = tab.run("document.getElementById('reading').innerText")
    assert "41900 and 390534" in said
    assert "program_step" not in said


def test_one_thing_is_named_in_the_singular(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    figures = text_of(tab).splitlines()
    assert figures[figures.index("question") - 1] == "1"
    assert "questions" not in figures
    tab.open(write_page(silent_host(), tmp_path, "alone.html"))
    assert " · 1 agent · " in tab.run("document.getElementById('figures').textContent")


def test_few_findings_are_not_cut_while_there_is_room(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    tab.run(
        "callboard.select(5); for (const one of document.querySelectorAll('.finding'))"
        " one.append(' and more words'.repeat(6))"
    )
    widths = tab.run(
        "[...document.querySelectorAll('.finding')].slice(0, 2)"
        ".map((one) => [one.scrollWidth, one.clientWidth, one.parentElement.clientWidth])"
    )
    assert widths
    for needed, given, room in widths:
        assert needed <= given or given > room - 60, widths


def test_failed_agents_are_named_with_their_reasons(tab: Browser, tmp_path: Path) -> None:
    recording = Recording.open(MemoryReader(stored(golden("everything"))))
    tab.open(write_page(recording, tmp_path))
    failed = tab.run("callboard.session.agents.filter((one) => one.status === 'failed')")
    assert len(failed) > 1
    lines = text_of(tab).split("Failed agents")[1].split("Findings")[0].splitlines()[1:]
    named = [line for line in lines if line]
    for agent, line in zip(failed, named, strict=True):
        assert line.startswith(f"{agent['address']} {agent['profile']}: {agent['kind']}")
        assert agent["detail"] in line


def test_an_event_leads_out_of_the_summary_and_a_key_back(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    tab.run(
        "document.querySelector('#summary .found a').click(); new Promise((done) => setTimeout(done, 100))"
    )
    assert tab.run("[callboard.isSummary, callboard.seq]") == [False, poisoned_sum().diagnose()[0].seq]
    assert tab.run("document.querySelectorAll('#list .row').length") > 5
    tab.press("h")
    assert "All refunds" in text_of(tab)
    tab.press("j")
    assert text_of(tab) == ""


@pytest.mark.parametrize("width", [800, 1000, 1400])
def test_the_top_of_the_page_is_one_line(tab: Browser, tmp_path: Path, width: int) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path), width=width, height=600)
    assert tab.run("document.getElementById('top').clientHeight") < 50


def test_a_failed_ask_has_no_answer_to_copy_and_its_model_no_reply(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(failed(), tmp_path))
    shown = text_of(tab)
    assert "No answer model_error event" in shown
    assert "(no reply)" in shown
    assert shown.count("no such model") == 3  # below the question, of the agent, in the finding
    assert tab.run("document.querySelector('#summary .ask .copy')") is None


def test_the_value_of_a_program_stands_there_once_and_its_steps_are_no_replies(
    tab: Browser, tmp_path: Path
) -> None:
    found = dict(healthy_programs())["program pipeline"]
    tab.open(write_page(found, tmp_path))
    shown = text_of(tab)
    assert (shown.count('"worst"'), shown.count("1.0")) == (1, 1)
    assert "scripted (7 replies)" in shown
    assert "program:" not in shown


def test_a_session_without_a_question_and_one_without_an_end_say_so(tab: Browser, tmp_path: Path) -> None:
    events = list(capped().events)
    tab.open(write_page(recording_of(events[:1], "one"), tmp_path, "empty.html"))
    assert "Nothing was asked in this session." in text_of(tab)
    tab.open(write_page(recording_of(events[:20], "one"), tmp_path, "open.html"))
    assert "It has no answer yet." in text_of(tab)
    assert tab.run("document.getElementById('outcome').textContent") == "unfinished"


def test_rows_can_be_read_at_twice_the_size(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path), "#20", width=700, height=450)
    words, *bars = tab.run(
        "[...document.querySelectorAll('#list .says')].slice(0, 1).map((one) => one.clientWidth)"
        ".concat([...document.querySelectorAll('.bar')].map((one) => one.scrollWidth - one.clientWidth))"
    )
    assert words > 150
    assert set(bars) == {0}


def test_an_agent_that_ended_at_a_limit_says_at_which(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(capped(), tmp_path))
    shown = text_of(tab)
    assert "host.1 worker: iteration_cap, used all its turns" in shown
    assert "Failed delegation: the ask ended well" in shown


def test_a_duration_has_at_most_59_seconds_beside_its_minutes(tab: Browser, tmp_path: Path) -> None:
    def figures(milliseconds: int) -> str:
        events = [replace(one, at=START_MS + milliseconds * (one.seq > 1)) for one in capped().events]
        tab.open(write_page(recording_of(events, "one"), tmp_path, f"{milliseconds}.html"))
        return str(tab.run("document.getElementById('figures').textContent"))

    for milliseconds, text in (
        (4, "4 ms"),
        (9_999, "10.0 s"),
        (119_700, "2 min 0 s"),
        (3_599_900, "1 h 0 min"),
    ):
        assert figures(milliseconds).endswith(f" · {text}")


def test_the_list_keeps_two_thirds_of_a_small_window(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path), "#5", width=800, height=600)
    lanes, items = tab.run(
        "['lanes', 'list'].map((name) => document.getElementById(name).getBoundingClientRect().height)"
    )
    assert items >= 2 * (lanes + items) / 3


def test_the_summary_of_thousands_of_events_has_few_elements(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(endless_loop(), tmp_path))
    assert "Question" in text_of(tab)
    assert tab.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX


def test_a_long_answer_is_there_in_full_with_few_elements(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    lines = json.dumps("\n\n".join(f"- item {n} **x**" for n in range(500)))
    tab.run(f"callboard.session.body(callboard.session.kinds.indexOf('AskEnded')).text = {lines}")
    tab.run("callboard.showSummary()")
    for button in range(tab.run("document.querySelectorAll('#summary .more').length")):
        tab.run(f"document.querySelectorAll('#summary .more')[{button}].click()")
    shown = text_of(tab)
    assert "item 0 x" in shown
    assert "item 499 **x**" in shown
    assert tab.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX


def test_the_value_of_a_report_stands_before_the_bookkeeping(tab: Browser, tmp_path: Path) -> None:
    recording = poisoned_sum()
    seq = next(event.seq for event in recording.events if event.kind == "DelegationEnded")
    tab.open(write_page(recording, tmp_path), f"#{seq}")
    shown = tab.run("document.querySelector('#detail .body').textContent")
    assert 0 <= shown.index("refund_cents") < shown.index("more") < shown.index("room")


def test_the_command_that_forks_at_an_event_is_one_word_for_a_shell(tab: Browser, tmp_path: Path) -> None:
    tab.open(write_page(poisoned_sum(), tmp_path))
    make = "callboard.forkOf({ summary: { session: %s } }, 3)"
    assert tab.run(make % json.dumps("one")) == "callboard fork one#3"
    for name in ("a b; rm x", "it's $(date)", "-x", "a\nb"):
        words = shlex.split(tab.run(make % json.dumps(name)))
        assert words == ["callboard", "fork", "--", f"{name}#3"]
