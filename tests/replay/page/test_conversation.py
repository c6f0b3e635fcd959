"""The conversation of an agent on the page, in a browser."""

from collections.abc import Iterator

import pytest

from callboard.actors.protocol.port_messages import CallModel
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.replay.page.kit import write_page

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser() as opened:
        opened.open(write_page(recording(), tmp_path_factory.mktemp("page")))
        yield opened


def recording() -> Recording:
    return Recording.open(MemoryReader(stored(golden("everything"))))


def shown(tab: Browser) -> str:
    return str(tab.run("document.getElementById('reading').innerText"))


@pytest.mark.parametrize("agent", [node.address for _, node in recording().tree().walk() if node.turns])
def test_the_conversation_of_an_agent_has_its_prompt_its_words_and_the_result_of_each_call(
    tab: Browser, agent: str
) -> None:
    tab.run(f"callboard.read('{agent}')")
    texts = shown(tab)
    last = tab.run(
        f"callboard.states.historyAt('{agent}', callboard.states.lastMessageOf('{agent}'))"
        ".map(([value]) => value)"
    )
    calls = [
        block for message in last if isinstance(message["content"], list) for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_use"
    ]  # fmt: skip
    assert tab.run("document.querySelectorAll('#reading .turn .call').length") == len(calls)
    for block in calls:
        assert block["name"] in texts
    assert texts.startswith(agent)
    assert f"event {tab.run(f'callboard.firstOf({agent!r})')}" in texts


def test_the_sub_agents_of_a_call_open_inline(tab: Browser) -> None:
    tab.run("callboard.read('host')")
    names = tab.run("[...document.querySelectorAll('#reading .child > summary')].map((one) => one.innerText)")
    children = [node.address for depth, node in recording().tree().walk() if depth == 1 and node.turns]
    assert [name.split()[0] for name in names] == children
    tab.run(
        "document.querySelector('#reading .child').open = true; new Promise((done) => setTimeout(done, 100))"
    )
    assert tab.run("document.querySelectorAll('#reading .child .turn').length") > 0


def test_only_what_a_request_added_is_shown_on_demand(tab: Browser) -> None:
    asked = [(event.seq, event.body) for event in recording().events]
    calls = [seq for seq, body in asked if isinstance(body, CallModel) and body.agent == "host"]
    assert calls
    for seq in calls:
        added = tab.run(f"callboard.states.requestOf({seq}).messages.filter((one) => one.isNew).length")
        tab.run(f"callboard.select({seq}); callboard.isOnlyNew = true; callboard.setMode('talk')")
        tab.run("callboard.drawReading()")
        turns = tab.run("document.querySelectorAll('#reading .turn').length")
        assert 0 < turns <= added
    tab.run("callboard.isOnlyNew = false; callboard.setMode('story')")
