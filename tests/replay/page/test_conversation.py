"""The conversation of an agent on the page, in a browser."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.actors.protocol.compaction_messages import Compacted
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, Step, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from tests.browser import Browser, browser, needs_browser
from tests.golden import golden, stored
from tests.mutants.scenarios_compaction import COMPACTED
from tests.replay.page.kit import write_page
from tests.replay.stories import endless_loop

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(300)]


ELEMENTS_MAX = 564


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


@pytest.mark.parametrize("agent", [node.address for _, node in recording().tree().walk() if node.turns])
def test_each_result_names_the_event_that_answered_its_call(tab: Browser, agent: str) -> None:
    tab.run(f"callboard.read('{agent}')")
    named = tab.run(
        "[...document.querySelectorAll('#reading article.turn')].flatMap((turn) =>"
        " [...turn.querySelectorAll(':scope > .call')].map((call, place) =>"
        " [turn.querySelector('header a').innerText, place,"
        " call.querySelector(':scope > .result')?.querySelector('a').innerText ?? '']))"
    )
    to_agent = [event for event in recording().events if event.recipient == agent]
    turns = {f"event {one.seq}": one.body.turn for one in to_agent if isinstance(one.body, ModelReplied)}
    answers = {
        (one.body.turn, one.body.call): f"event {one.seq}"
        for one in to_agent
        if isinstance(one.body, ToolReturned | DelegationEnded)
    }
    for reply, place, result in named:
        if result and (turns[reply], place) in answers:
            assert result == answers[turns[reply], place]


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


def test_a_report_shows_its_judgement(tab: Browser) -> None:
    judged = {
        event.recipient: event.seq for event in recording().events if isinstance(event.body, ReportJudged)
    }
    assert len(judged) > 1
    for agent, last in judged.items():
        tab.run(f"callboard.isOnlyNew = false; callboard.read('{agent}')")
        texts = shown(tab)
        assert f"accepted event {last}" in texts
        assert "no result" not in texts


def test_the_conversation_of_thousands_of_events_has_few_elements_and_every_message(
    tab: Browser, tmp_path: Path
) -> None:
    with browser() as other:
        other.open(write_page(endless_loop(), tmp_path))
        agent = "host.1"
        last = f"callboard.states.lastMessageOf('{agent}')"
        count = other.run(f"callboard.states.historyAt('{agent}', {last}).length")
        assert count > 60
        other.run(f"callboard.read('{agent}')")
        seen: set[str] = set()
        while True:
            assert other.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX
            links = "[...document.querySelectorAll('#reading .turn > header a')].map((one) => one.hash)"
            seen |= set(other.run(links))
            buttons = "[...document.querySelectorAll('#reading .more')]"
            more = f"{buttons}.find((one) => one.innerText.endsWith('earlier messages'))"
            if not other.run(f"Boolean({more})"):
                break
            other.run(f"{more}.click()")
        assert len(seen) >= count // 2  # results stand at their calls


def test_a_message_of_a_hundred_calls_has_few_elements_and_every_call(tab: Browser) -> None:
    use = '{"type":"tool_use","id":"c" + n,"name":"t" + n,"input":{"text":"x".repeat(500)}}'
    texts = '{"type":"text","text":Array(90).fill("- **a** `b`").join("\\n")}'
    fake = f"[...Array(100)].map((_, n) => n % 3 ? ({use}) : ({texts}))"
    tab.run(
        "callboard.states.historyAt = () => [...Array(5)].map(() =>"
        f" [{{ role: 'assistant', content: {fake} }}, 6]);"
        " document.getElementById('reading').dataset.key = ''; callboard.read('host.1')"
    )
    assert tab.run("document.querySelectorAll('*').length") <= ELEMENTS_MAX
    buttons = "[...document.querySelectorAll('#reading .turn .more')]"
    part = f"{buttons}.find((one) => one.innerText.endsWith('parts of this message'))"
    while tab.run(f"Boolean({part})"):
        tab.run(f"{part}.click()")
    texts = shown(tab)
    assert [n for n in range(100) if n % 3 and f"t{n}" not in texts] == []
    assert texts.count("a b") + texts.count("**a**") >= 90
    tab.run("delete callboard.states.historyAt; callboard.setMode('story')")


def show_value(tab: Browser, value: str) -> None:
    """Let a report have this JSON text as its value, and show its message."""
    seq = tab.run("callboard.session.kinds.indexOf('ReportBack')")
    tab.run(
        "(({ session }) => {"
        f"  const {{ value: _, ...others }} = session.body({seq});"
        f"  const start = JSON.stringify(others).slice(0, -1);"
        f"  session.bodies[{seq}] = start + ',\"value\":' + {json.dumps(value)} + '}}';"
        f"  session.parsed.delete({seq});"
        "})(callboard); callboard.setMode('story')"
    )
    tab.run(f"callboard.select({seq}); callboard.detail.show('message')")
    tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize("filler", ["", ', "more": [' + ", ".join(map(str, range(90))) + "]"])
def test_json_stands_in_the_order_and_the_spelling_of_the_log(tab: Browser, filler: str) -> None:
    """A parsed object loses a name that occurs twice, and sorts those that are numbers."""
    written = '{"10": "a", "9": 1.50, "a": {}, "b": [], "a": "x, y: {", "__proto__": -0.0' + filler + "}"
    lines = ['"10": "a"', '"9": 1.50', '"a": {}', '"b": []', '"a": "x, y: {"', '"__proto__": -0.0']
    show_value(tab, written)
    for view in ("message", "json"):
        tab.run(f"callboard.detail.show('{view}')")
        tab.run("document.querySelectorAll('#detail .part').forEach((fold) => { fold.open = true; })")
        tab.run(
            "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
        )  # until they are drawn
        text = tab.run("document.querySelector('#detail').textContent")
        places = [text.index(line) for line in lines]
        assert places == sorted(places)


def test_a_text_that_is_json_is_laid_out_and_any_other_text_is_not(tab: Browser) -> None:
    seq = tab.run("callboard.session.kinds.indexOf('ToolReturned')")
    for output, shown_as in (
        ('{"b":1,"a":[2]}', '{\n  "b": 1,\n  "a": [\n    2\n  ]\n}'),
        ('{"b":1,', '{"b":1,'),
        ("[see below]", "[see below]"),
    ):
        tab.run(
            f"callboard.session.bodies[{seq}] = JSON.stringify({{ ...callboard.session.body({seq}),"
            f" output: {json.dumps(output)} }}); callboard.session.parsed.delete({seq})"
        )
        tab.run(f"callboard.select({seq}); callboard.detail.show('message')")
        assert tab.run("document.querySelector('#detail pre').textContent") == shown_as


def test_text_that_changes_its_direction_is_shown_in_its_order(tab: Browser) -> None:
    """A reader sees 'pay 1' for 'pay \u202e1' otherwise, or an answer that the model did not give."""
    show_value(tab, '{"to": "\u202egro.live\u202c \u2066x\u2069"}')
    text = tab.run("document.querySelector('#detail').textContent")
    assert '"\ufffdgro.live\ufffd \ufffdx\ufffd"' in text


def test_long_json_is_folded_and_coloured_without_elements(tab: Browser) -> None:
    value = {"plain": 1, "list": [{"n": n} for n in range(50)], "<b>": "</script>", "t": [None, True, -1.5e3]}
    show_value(tab, json.dumps(value))
    parts = "document.querySelector('#detail .parts')"
    assert tab.run(f"{parts}.querySelectorAll('*').length") < 10
    assert '"<b>": "</script>"' in tab.run(f"{parts}.textContent")
    coloured = tab.run(
        "['json-name', 'json-text', 'json-number'].map((name) => [...CSS.highlights.get(name)].map((range) =>"
        " range.startContainer.data.slice(range.startOffset, range.endOffset)))"
    )
    names, texts, numbers = map(set, coloured)
    assert names >= {'"plain"', '"<b>"', '"t"'}
    assert '"</script>"' in texts
    assert numbers >= {"1", "null", "true", "-1500.0"}
    tab.run(f"{parts}.querySelector('details').open = true; new Promise((done) => setTimeout(done, 50))")
    assert tab.run(f"{parts}.querySelectorAll('details').length") >= 1
    assert '"n": 49' in tab.run(f"{parts}.textContent")


def test_a_line_says_where_a_conversation_became_shorter(tab: Browser, tmp_path: Path) -> None:
    world = SessionWorld(COMPACTED["summarised"]).run()
    (*_, last) = world.events(Compacted)
    tab.open(write_page(Recording.open(MemoryReader(stored(world.log))), tmp_path))
    tab.run("callboard.read('host')")
    lines = tab.run("[...document.querySelectorAll('#reading .compacted')].map((one) => one.innerText)")
    assert len(lines) == 1
    assert lines[0].startswith(f"Compacted: summary {last.cause} in place of ")
    assert lines[0].endswith(f"event {last.seq}")
    before, _, after = shown(tab).partition(lines[0])
    assert "In short: nothing yet." in before
    assert "In short: nothing yet." not in after


def test_calls_that_were_made_together_name_the_event_of_their_own_result(
    tab: Browser, tmp_path: Path
) -> None:
    @tool(effect="read")
    async def look(n: int) -> str:
        """Look."""
        return f"found {n}"

    def script(request: ModelRequest) -> Step:
        return calls(*(call("look", n=n) for n in range(3))) if request.turn == 1 else say("done")

    async def main() -> MemoryLog:
        log = MemoryLog()
        async with Runtime(log, model=ScriptedModel(script)) as runtime:
            await runtime.run(Agent("host", tools=[look]), "Look three times.", session_id="one")
        return log

    made = Recording.open(MemoryReader(asyncio.run(main())))
    tab.open(write_page(made, tmp_path))
    tab.run("callboard.read('host')")
    named = tab.run("[...document.querySelectorAll('#reading .result a')].map((one) => one.innerText)")
    returned = [event for event in made.events if isinstance(event.body, ToolReturned)]
    assert sorted(named) == sorted(f"event {event.seq}" for event in returned)
