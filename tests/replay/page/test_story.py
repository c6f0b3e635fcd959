"""The story: rows of everything that an agent did, as a tree that folds by agent."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.actors.protocol.addresses import parent_of
from callboard.actors.protocol.client_messages import Tell, TellEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.value_types import ModelFailure
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.replay.diagnosis.kit import simulate
from tests.replay.exports.kit import log_of
from tests.replay.page.kit import PageData, page_of, write_page

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]

ROWS = "callboard.list.rows.map((row) => [row.span.first, row.span.kind, row.span.agent, row.depth])"


def recording() -> Recording:
    return Recording.open(MemoryReader(stored(golden("everything"))))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as tab:
        tab.open(write_page(recording(), tmp_path_factory.mktemp("page")), "#1")
        yield tab


@pytest.fixture
def tab(opened: Browser) -> Browser:
    """Return the page with its story unfolded."""
    opened.run(
        "callboard.session.folded.clear(); callboard.setOnlyAgent(false); callboard.setMode('story');"
        "callboard.select(1)"
    )
    return opened


def rows_of(tab: Browser) -> list[Any]:
    return list(tab.run(ROWS))


def begun_by(events: Recording) -> dict[str, int]:
    """Return the delegation of each agent by the ends of delegations, which name their first agents."""
    asked: dict[tuple[str, int, int], tuple[int, int]] = {}
    found: dict[str, int] = {}
    for event in events.events:
        body = event.body
        if isinstance(body, Delegate):
            asked[event.sender, body.turn, body.call] = event.seq, len(body.profiles)
        elif isinstance(body, DelegationEnded) and body.address:
            seq, copies = asked[event.recipient, body.turn, body.call]
            first = int(body.address.rpartition(".")[2])
            found |= {f"{parent_of(body.address)}.{first + copy}": seq for copy in range(copies)}
    return found


def test_every_agent_stands_under_the_delegation_that_began_it(tab: Browser) -> None:
    begun = begun_by(recording())
    assert len(begun) > 3
    rows = rows_of(tab)
    assert sorted(row[0] for row in rows) == sorted(
        span[1] for span in PageData(page_of(recording())).summary["spans"]
    )
    above: list[int] = []
    for first, kind, agent, depth in rows:
        del above[depth:]
        assert (above[-1] if above else None) == begun.get(agent), first
        if kind == "delegation":
            above.append(first)
    found = tab.run(
        "[...callboard.delegationsIn(callboard.session)].map(([address, one]) => [address, one.seq])"
    )
    assert begun.items() <= dict(found).items()


def test_a_fold_hides_an_agent_and_counts_its_rows_and_the_chosen_event_is_never_hidden(tab: Browser) -> None:
    whole = rows_of(tab)
    place = next(at for at, row in enumerate(whole) if row[3] == 1)
    tab.run(f"callboard.select({whole[place][0]})")
    tab.press("ArrowLeft")  # to its delegation
    delegation = whole[place - 1]
    assert tab.run("callboard.seq") == delegation[0]
    tab.press("ArrowLeft")
    inside = next(at for at, row in enumerate(whole[place:]) if row[3] == 0)
    assert rows_of(tab) == whole[:place] + whole[place + inside :]
    assert f"{inside} rows" in tab.run("document.querySelector('#list .row.chosen').innerText")
    tab.run("callboard.setMode('events'); callboard.setMode('story')")
    assert len(rows_of(tab)) == len(whole) - inside, "a fold is kept"
    tab.run(f"callboard.select({whole[place][0]})")
    assert rows_of(tab) == whole, "what is chosen is shown"
    tab.press("z")
    assert {row[3] for row in rows_of(tab)} == {0}
    assert whole[place][0] != tab.run("callboard.seq")
    tab.press("z")
    assert rows_of(tab) == whole


def test_keys_pass_every_row_in_both_directions(tab: Browser) -> None:
    count = len(rows_of(tab))
    tab.press("g")
    tab.run("callboard.list.move(-1000)")
    for step, last in ((1, count - 1), (-1, 0)):
        for _ in range(count - 1):
            before = tab.run("callboard.list.current")
            tab.run(f"callboard.list.move({step})")
            assert tab.run("callboard.list.current") == before + step
        assert tab.run("callboard.list.current") == last


def test_refused_calls_are_failures_with_their_reasons(tab: Browser) -> None:
    refused = [span for span in recording().spans() if span.kind == "refused"]
    assert refused
    for span in refused:
        tab.run(f"callboard.select({span.first.seq})")
        texts = tab.run("[...document.querySelectorAll('#list .row.bad')].map((one) => one.textContent)")
        assert any(span.name in text and span.reason[:60] in text for text in texts)
        assert span.reason in tab.run("document.querySelector('#detail .body').textContent")
    tab.press("g")
    seen = set()
    for _ in range(tab.run("callboard.session.count")):
        tab.press("f")
        if tab.run("callboard.seq") in seen:
            break
        seen.add(tab.run("callboard.seq"))
    assert {span.first.seq for span in refused} <= seen


def test_words_and_changed_approvals_have_rows_with_their_notes(tmp_path: Path) -> None:
    posts: list[tuple[str, str, AnyMessage]] = [
        ("client", "supervisor", Tell("r", "host", "Wait!")),
        ("supervisor", "client", TellEnded("r", "heard", 2)),
        ("host", "approvals", RequestApproval(1, 0, "pay", "write", Json(b'{"eur":4545}'))),
        ("approvals", "host", ApprovalGiven(1, 0, "approved", "too much", arguments=Json(b'{"eur":454}'))),
    ]
    events = [Event(seq, 1_000 * seq, *post[:2], seq - 1, post[2]) for seq, post in enumerate(posts, 1)]
    with browser() as other:
        other.open(write_page(Recording.open(MemoryReader(log_of(events))), tmp_path), "#1")
        texts = other.run("[...document.querySelectorAll('#list .row')].map((one) => one.textContent)")
    assert len(texts) == 2
    for text, expected in zip(
        texts, (("Wait!", "read in turn 2"), ('changed to {"eur":454}; too much',)), strict=True
    ):
        assert all(one in text for one in expected), text


def test_a_turn_that_failed_is_marked_with_its_attempts(tab: Browser, tmp_path: Path) -> None:
    busy = Reply(failure=ModelFailure("overloaded", is_retryable=True))
    gone = Reply(failure=ModelFailure("not_found_error"))
    tab.open(write_page(simulate({"host": [busy, busy, gone]}), tmp_path), "#2")
    rows = "[...document.querySelectorAll('#list .row')]"
    turn = f"{rows}.find((row) => row.querySelector('.kind').textContent === 'turn')"
    assert tab.run(f"{turn}.classList.contains('bad')")
    assert "3 attempts" in tab.run(f"{turn}.querySelector('.says').textContent")
    assert "attempts 1 to 2: overloaded" in tab.run(f"{turn}.querySelector('.says').textContent")
