"""Copies out of the page: a request as a command and as a program, and values as they are written."""

import ast
import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from callboard import (
    Agent,
    AnthropicModel,
    BedrockModel,
    GeminiModel,
    OpenAICompatibleModel,
    OpenAIModel,
    Runtime,
    ScriptedModel,
    call,
    calls,
    say,
    tool,
)
from callboard.actors.protocol.port_messages import CallModel, ModelReplied
from callboard.replay.recording import Recording
from callboard.runtime.models.protocol import Model
from tests.bedrock_api import BedrockApi
from tests.browser import Browser, browser, needs_browser
from tests.gemini_api import GeminiApi
from tests.messages_api import MessagesApi, Seen, message, sse_answer, text
from tests.openai_api import OpenAIApi, Reply
from tests.replay.page.kit import write_page

pytestmark = [needs_browser, pytest.mark.slow, pytest.mark.timeout(120)]

KEY = "sk-test-0123456789"
# What a shell, Python and a terminal obey, in one text.
HOSTILE = (
    'it\'s $(touch x) `touch y` \n\'\n\\0101 \\u0041 %s \x1b[2J \x9b201~ \u202e \U000e0041 \U0001f600 """ !'
)
LARGE = 12_345_678_901_234_567_890_123
WRITTEN = '{"id": 9007199254740993, "rate": 1.0, "tiny": 1e-07, "big": -12345678901234567890}'


class Service(NamedTuple):
    """A service on this machine, its model, and the header that has the key."""

    api: Callable[[], MessagesApi]
    model: Callable[[str], Model]
    header: str = "authorization"
    key: str = f"Bearer {KEY}"


def _reply(seen: Seen) -> Reply:
    return Reply((f"{len(seen.raw)}: {HOSTILE}",))


SERVICES = {
    "messages": Service(
        lambda: MessagesApi(lambda seen: sse_answer(message(text(f"{len(seen.raw)}: {HOSTILE}")))),
        lambda url: AnthropicModel("claude-sonnet-4-5", base_url=url, api_key=KEY, betas=["a", "b"]),
    ),
    "chat": Service(
        lambda: OpenAIApi(_reply),
        lambda url: OpenAICompatibleModel("m", base_url=f"{url}/v1", api_key=KEY),
    ),
    "responses": Service(
        lambda: OpenAIApi(_reply),
        lambda url: OpenAIModel("gpt-4o", base_url=f"{url}/v1", api_key=KEY),
    ),
    "generate-content": Service(
        lambda: GeminiApi(_reply),
        lambda url: GeminiModel("gemini-test", base_url=url, api_key=KEY),
        "x-goog-api-key",
        KEY,
    ),
    "converse": Service(
        lambda: BedrockApi(_reply),
        lambda url: BedrockModel("eu.maker/m:1", base_url=url, region="us-east-1", api_key=KEY),
    ),
}


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


def record(log: Path, model: Model, *, keep: bool = True) -> None:
    """Record a conversation of three asks."""

    async def main() -> None:
        async with Runtime(str(log), model=model, keep_requests=keep) as runtime:
            session = await runtime.open(Agent("host", instructions=f"Be brief. {HOSTILE}"))
            for turn in range(3):
                await session.ask(f"Ask {turn}. {HOSTILE}")

    asyncio.run(main())


def grants(recording: Recording) -> list[int]:
    return [event.seq for event in recording.events if isinstance(event.body, CallModel)]


def copy(tab: Browser, seq: int, form: str) -> str:
    sent = f"callboard.sendable(callboard.session, callboard.states.requestOf({seq}))"
    return str(tab.run(f"callboard.{form}({sent})"))


def run(words: list[str], folder: Path, **variables: str) -> None:
    """Run a program in a folder, in which it may leave nothing."""
    path = os.environ["PATH"]
    subprocess.run(
        words, cwd=folder, env={"PATH": path, **variables}, check=True, capture_output=True, timeout=30
    )
    assert not list(folder.iterdir())


def printable(code: str) -> bool:
    return all(line.isprintable() for line in code.split("\n"))


@pytest.mark.parametrize("name", SERVICES)
def test_both_copies_send_the_request_that_was_sent(tab: Browser, tmp_path: Path, name: str) -> None:
    service, folder = SERVICES[name], tmp_path / "empty"
    folder.mkdir()
    with service.api() as api:
        record(tmp_path / "log.db", service.model(api.url))
        sent = list(api.seen)
        assert len(sent) == 3
        with Recording.open(tmp_path / "log.db") as recording:
            tab.open(write_page(recording, tmp_path), "#1")
            seqs = grants(recording)
        for seq, was in zip(seqs, sent, strict=True):
            curl, program = copy(tab, seq, "curlOf"), copy(tab, seq, "pythonOf")
            assert KEY not in curl + program
            assert printable(curl)
            assert printable(program)
            api.forget()
            run(["sh", "-c", curl], folder, API_KEY=KEY)
            run([sys.executable, "-c", program], folder, API_KEY=KEY)
            for again in api.seen:
                assert (again.path, again.raw) == (was.path, was.raw)
                assert again.headers[service.header] == was.headers[service.header] == service.key
                for header in ("content-type", "anthropic-version", "anthropic-beta"):
                    assert again.headers.get(header) == was.headers.get(header)
            assert len(api.seen) == 2


def test_a_request_whose_body_was_not_kept_is_sent_as_recorded(tab: Browser, tmp_path: Path) -> None:
    """It goes to its own service if that takes the form of the log, which is that of the Messages API."""
    folder = tmp_path / "empty"
    folder.mkdir()
    with SERVICES["chat"].api() as chat, SERVICES["messages"].api() as api:
        for name, url in (("chat", chat.url), ("messages", api.url)):
            record(tmp_path / f"{name}.db", SERVICES[name].model(url), keep=False)
            with Recording.open(tmp_path / f"{name}.db") as recording:
                tab.open(write_page(recording, tmp_path), "#1")
                seq = grants(recording)[-1]
                expected = json.loads(bytes(recording.request(seq).body()))
            tab.run(f"callboard.select({seq}); callboard.detail.show('request')")
            assert "as recorded" in tab.run("document.querySelector('#detail .body').textContent")
            own = {"API_KEY": KEY}
            place = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": KEY} if name == "chat" else own
            api.forget()
            run(["sh", "-c", copy(tab, seq, "curlOf")], folder, **place)
            run([sys.executable, "-c", copy(tab, seq, "pythonOf")], folder, **place)
            assert len(api.seen) == 2
            for seen in api.seen:
                assert seen.body["model"] == expected["model"].removeprefix("compatible:")
                for part in ("messages", "max_tokens", "system"):
                    assert seen.body[part] == expected[part]
                assert seen.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("endpoint", "variable"),
    [
        ("https://api.openai.com/v1 (chat)", "OPENAI_API_KEY"),
        ("https://openrouter.ai/api/v1 (chat)", "OPENROUTER_API_KEY"),
        ("https://generativelanguage.googleapis.com (generate-content)", "GOOGLE_API_KEY"),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com (converse)", "AWS_BEARER_TOKEN_BEDROCK"),
        ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("http://api.openai.com/v1 (chat)", "API_KEY"),
        ("https://api.openai.com.example.org/v1 (chat)", "API_KEY"),
        ("https://api.openai.com@example.org/v1 (chat)", "API_KEY"),
        ("https://bedrock-runtime.x.amazonaws.com.example.org (converse)", "API_KEY"),
    ],
)
def test_a_key_goes_to_its_own_service_only(
    tab: Browser, conversation: Path, endpoint: str, variable: str
) -> None:
    tab.open(conversation, "#1")
    plant(tab, endpoint)
    assert tab.run("callboard.sendable(callboard.session, callboard.asked).keyName") == variable


def plant(tab: Browser, endpoint: str) -> None:
    """Let the last request of a page have been sent to this address, its body kept."""
    seq = tab.run("callboard.session.kinds.lastIndexOf('ModelReplied')")
    origin = json.dumps({"adapter": "any", "endpoint": endpoint, "model": "m"})
    tab.run(
        f"callboard.asked = callboard.states.requestOf({seq}); callboard.asked.model.origin = {origin};"
        f"callboard.session.body({seq}).body = ['{{}}']; callboard.session.body({seq}).sent = {{}}; 0"
    )


def test_an_address_of_the_log_is_one_word_and_no_code(tab: Browser, conversation: Path) -> None:
    tab.open(conversation, "#1")
    plant(tab, "http://127.0.0.1:9/'$(touch${IFS}x)`y`\\u0022 (chat)")
    sent = "callboard.sendable(callboard.session, callboard.asked)"
    address = tab.run(f"{sent}.address")
    assert "touch" in address
    assert shlex.split(tab.run(f"callboard.curlOf({sent})"))[5] == address
    assigned = ast.parse(tab.run(f"callboard.pythonOf({sent})")).body[3]
    assert isinstance(assigned, ast.Assign)
    assert ast.literal_eval(assigned.value) == address


# --- values ----------------------------------------------------------------------------


@tool(effect="read")
def count(value: object) -> object:
    """Count."""
    return {"counted": value}


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a session whose calls and report have numbers that no browser can hold."""
    folder = tmp_path_factory.mktemp("page")
    value = {"id": LARGE, "rate": 1.0, "list": [LARGE + 1, {"deep": "a “text”"}]}
    model = ScriptedModel([calls(call("count", value=value), call("count", value=WRITTEN)), say("Done.")])
    Runtime(str(folder / "log.db"), model=model).run_sync(Agent("host", tools=[count]), f"Count {LARGE}.")
    with Recording.open(folder / "log.db") as recording:
        return write_page(recording, folder)


@pytest.fixture
def shown(tab: Browser, conversation: Path) -> Browser:
    """Open that page, and let it copy into a variable."""
    tab.open(conversation, "#1")
    tab.run("navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }; 0")
    return tab


def select(tab: Browser, kind: str, view: str) -> int:
    seq = tab.run(f"callboard.session.kinds.indexOf('{kind}')")
    tab.run(f"callboard.select({seq}); callboard.detail.show('{view}')")
    return int(seq)


def press(tab: Browser, title: str) -> str:
    """Press a button of the detail and return the copied text."""
    return str(tab.run(f"document.querySelector('#detail [title=\"{title}\"]').click(); globalThis.copied"))


@pytest.mark.parametrize(
    ("kind", "view"),
    [
        ("CallTool", "message"),
        ("CallTool", "json"),
        ("ToolReturned", "message"),
        ("ModelReplied", "message"),
        ("ModelReplied", "state"),
        ("ModelReplied", "request"),
        ("ModelReplied", "json"),
    ],
)
def test_a_large_number_is_shown_as_it_is_written(shown: Browser, kind: str, view: str) -> None:
    select(shown, kind, view)
    if view == "request":  # the newest request has the calls
        shown.run("callboard.select(callboard.session.kinds.lastIndexOf('ModelReplied')); 0")
    for _ in range(3):  # folds in folds
        shown.run("document.querySelectorAll('#detail details').forEach((one) => { one.open = true; })")
        shown.run("new Promise((done) => setTimeout(done, 20))")
    words = shown.run("document.querySelector('#detail .body').textContent")
    assert str(LARGE) in words
    assert '"rate": 1.0' in words or '"rate":1.0' in words
    shown.run("callboard.read('host')")
    assert str(LARGE) in shown.run("document.getElementById('reading').textContent")


@pytest.mark.parametrize(
    "written",
    [
        "-0",
        "1.0",
        "1E5",
        "9007199254740993",
        "1e-07",
        "0.1",
        "7",
        "1e999",
        "1.50",
        "0.0000001",
        "123456.78901234568",
        "-12",
    ],
)
def test_each_spelling_of_a_number_stays(shown: Browser, written: str) -> None:
    body = json.dumps(f'{{"type":"x","n":{written},"of":[{written}]}}')
    shown.run(f"callboard.session.bodies[1] = {body}; callboard.session.parsed.clear()")
    assert shown.run("JSON.stringify(callboard.session.body(1))") == json.loads(body)


def test_every_value_of_a_message_and_the_whole_message_are_copied(shown: Browser) -> None:
    seq = select(shown, "CallTool", "message")
    line = shown.run(f"callboard.session.bodies[{seq}]")
    assert json.loads(press(shown, "Copy arguments")) == json.loads(line)["arguments"]
    select(shown, "CallTool", "json")
    assert press(shown, "Copy message") == line
    place = f"{shown.run('callboard.session.summary.session')}#{seq}"
    assert press(shown, "Copy the link to this event") == place
    assert press(shown, "Copy the command that forks here") == f"callboard fork {place}"


CLICK = """(([find, back]) => {
    const blocks = [...document.querySelectorAll('#detail pre.json')];
    const block = blocks.find((one) => one.textContent.includes(find));
    const node = block.firstChild;
    const range = new Range();
    range.setStart(node, node.data.indexOf(find) + find.length - back);
    block.scrollIntoView();
    const box = range.getBoundingClientRect();
    return [box.left + 1, box.top + box.height / 2];
})(%s)"""


@pytest.mark.parametrize(
    ("find", "back", "expected"),
    [
        (f'"id": {LARGE}', 3, str(LARGE)),
        ('"rate": 1.0', 1, "1.0"),
        ("a “text”", 2, "a “text”"),
        ('"list":', 4, json.dumps([LARGE + 1, {"deep": "a “text”"}], indent=2, ensure_ascii=False)),
    ],
)
def test_a_leaf_is_copied_by_a_click_and_a_name_copies_its_value(
    shown: Browser, find: str, back: int, expected: str
) -> None:
    select(shown, "CallTool", "json")
    x, y = shown.run(CLICK % json.dumps([find, back]))
    for kind in ("mousePressed", "mouseReleased"):
        shown.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    shown.run("document.querySelector('#detail .leaf').click(); 0")
    assert shown.run("globalThis.copied") == expected
    shown.run("document.querySelector('#detail h2').click(); 0")
    assert shown.run("document.querySelectorAll('.leaf').length") == 0


def test_a_browser_that_forbids_copies_shows_the_text(shown: Browser) -> None:
    shown.run("navigator.clipboard.writeText = async () => { throw new Error('forbidden'); }; 0")
    seq = select(shown, "ModelReplied", "json")
    shown.run(
        "document.querySelector('#detail .body .copy').click(); new Promise((done) => setTimeout(done))"
    )
    assert shown.run("document.querySelector('#detail .body .copied').value") == shown.run(
        f"callboard.session.bodies[{seq}]"
    )


def test_the_source_of_a_large_number_is_where_it_stands(shown: Browser) -> None:
    seq = shown.run("callboard.session.kinds.indexOf('ToolReturned')")
    near = f"callboard.sourceOf(callboard.session, {seq}, '{LARGE + 2}').way"
    assert shown.run(near) == []
    assert shown.run(near.replace(str(LARGE + 2), str(LARGE))) != []
    assert ModelReplied.__name__ in shown.run("callboard.session.kinds")
