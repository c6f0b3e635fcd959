"""L1 to L3, L13: text that attacks a page in a browser.

The page of `callboard export --format html` shows text of models, tools and people. It is opened in a real
browser with such text in every field, and nothing of it may run, load or become an element. One module serves
pages on loopback: `tests/cli/test_page_server.py` attacks it (L13). Printed JSON, which others may put into
pages, stays JSON.
"""

import ast
import json
import re
from base64 import b64encode
from functools import cache
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Cancel, Tell
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AnyMessage, DelegationEnded, Finished, ReportBack
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.value_types import ModelFailure
from callboard.cli.output import emit_json
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.browser import Browser, browser, needs_browser
from tests.replay.exports.kit import log_of
from tests.replay.page.kit import page_of, write_page

ROOT = Path(__file__).parent.parent.parent
SERVING = {"http.server", "wsgiref", "socketserver", "starlette", "jinja2", "aiohttp", "uvicorn"}
SERVES = {"callboard/cli/page_server.py", "callboard/cli/mcp_http.py"}
"""Modules with a server on loopback: the tests of both attack it."""

MARKUP = re.compile(r"<(?:html|script|body|div|svg|iframe|a href|img )|text/html", re.IGNORECASE)
RECOGNISES = {
    "callboard/cli/page_server.py",
    "runtime/models/answer_bodies.py",
    "runtime/models/failures.py",
}
"""Modules that name the type of a page, or look for markup: a proxy may answer with one."""
HOSTILE = {
    "l1": "</script><script>alert(1)</script>",
    "l2": "[click](javascript:alert(1))",
    "l3": '<svg onload="alert(1)"><img src=x onerror=alert(1)>',
}


def sources(words: re.Pattern[str]) -> list[tuple[Path, ast.Module]]:
    """Parse the sources with any of these words; to parse all of them takes two seconds."""
    return [
        (path, ast.parse(text))
        for folder in ("actors", "runtime", "replay", "callboard")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(part.is_symlink() for part in path.parents)
        if words.search(text := path.read_text())
    ]


def imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def attacked() -> Recording:
    """Return a session with each hostile text in every field that takes a text."""
    events: list[Event] = []
    for text in HOSTILE.values():
        raw = Json(json.dumps(text).encode())
        value = Json(json.dumps({text: [text, {"~p1": text}], "__proto__": text}).encode())
        edit = {"path": text, "old_text": text, "diff": f"@@ -1\n-{text}"}
        encoded = b64encode(text.encode()).decode()
        svg = {"type": "base64", "media_type": "image/svg+xml", "data": encoded}
        said = [
            {"type": "text", "text": text},
            {"type": "tool_use", "id": "1", "name": text, "input": {text: text}},
            {"type": "tool_use", "id": "2", "name": text, "input": edit},
            {"type": "image", "source": {"type": "base64", "media_type": text, "data": text}},
            {"type": "image", "source": svg},
            {"type": "image_url", "image_url": {"url": f"data:text/html,{text}"}},
            {"type": "document", "source": {"type": "url", "url": text}},
        ]
        content = Json(json.dumps(said).encode())
        bodies: list[tuple[str, str, AnyMessage]] = [
            ("client", "supervisor", Ask(text, raw)),
            ("client", "supervisor", Tell(text, "host", text)),
            ("client", "supervisor", Cancel(text)),
            ("model", "host", ModelReplied(1, content=content, model=text)),
            ("model", "host.1", ModelReplied(1, 1, "error", failure=ModelFailure(text, text))),
            ("host", "tools", CallTool(1, 0, text, "read", value, text)),
            ("tools", "host", ToolReturned(1, 0, "error", content, text)),
            ("approvals", "host", ApprovalGiven(1, 0, "denied", text, by=text, arguments=value)),
            ("host.1", "supervisor", ReportBack(1, 0, value)),
            ("host.1", "supervisor", Finished("answered", text, text)),
            ("supervisor", "host", DelegationEnded(1, 0, "answered", text, value, text, text)),
            (text, text, AskEnded(text, "answered", value, text, text)),
        ]
        first = len(events) + 1
        events += [Event(first + n, 1_000 + n, *one[:2], 0, one[2]) for n, one in enumerate(bodies)]
    return Recording.open(MemoryReader(log_of(events, session_id=HOSTILE["l1"])))


@cache
def looked_at(folder: Path) -> tuple[Browser, list[str], int]:
    """Look at every event of the attacked session in every view; returns the browser and all links."""
    with browser() as tab:
        page = write_page(attacked(), folder)
        tab.open(page)
        scripts = tab.run("document.scripts.length")
        links: set[str] = set()
        for seq in range(1, tab.run("callboard.session.count") + 1):
            for view in ("message", "request", "state", "why", "json"):
                tab.run(f"callboard.select({seq}); callboard.detail.show('{view}')")
                links.update(tab.run("[...document.links].map((link) => link.getAttribute('href'))"))
        tab.run("callboard.showSummary()")
        links.update(tab.run("[...document.links].map((link) => link.getAttribute('href'))"))
        for agent in tab.run("callboard.session.agents.map((one) => one.address)"):
            tab.run(f"callboard.read({json.dumps(agent)})")
            tab.run("document.querySelectorAll('#reading details').forEach((one) => { one.open = true; })")
            links.update(tab.run("[...document.links].map((link) => link.getAttribute('href'))"))
        for text in HOSTILE.values():
            for act in ("search", "setNote"):
                tab.run(f"callboard.{act}({json.dumps(text)}); callboard.showNotes()")
        tab.run("callboard.setMode('events'); new Promise((done) => setTimeout(done, 200))")
        made = tab.run(
            "document.querySelectorAll('svg, img, iframe, object, embed, [onload], [onerror]').length"
        )
        made += tab.run("document.scripts.length") - scripts
        tab.requests = [one for one in tab.requests if one not in ("about:blank", page.as_uri())]
        return tab, sorted(links), made


@pytest.fixture(scope="module")
def attacked_page(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, list[str], int]:
    return looked_at(tmp_path_factory.mktemp("attacked"))


@needs_browser
@pytest.mark.slow
def test_l1_no_text_runs_as_a_script_or_breaks_the_policy(
    attacked_page: tuple[Browser, list[str], int],
) -> None:
    tab, _, _ = attacked_page
    assert tab.dialogs == []
    assert tab.console == [], "an error, or a violation of the policy"
    assert tab.requests == []


def test_l1_no_text_of_a_session_stands_in_the_markup() -> None:
    page = page_of(attacked())
    assert b"alert(1)" not in page
    assert page.count(b"</script>") == 3


@needs_browser
@pytest.mark.slow
def test_l2_every_link_of_the_page_leads_to_an_event(attacked_page: tuple[Browser, list[str], int]) -> None:
    _, links, _ = attacked_page
    assert links
    assert [link for link in links if not re.fullmatch(r"#\d+", link)] == []


@needs_browser
@pytest.mark.slow
def test_l3_no_text_becomes_an_element(attacked_page: tuple[Browser, list[str], int]) -> None:
    *_, made = attacked_page
    assert made == 0


def test_l13_no_other_module_serves_a_page() -> None:
    for path, tree in sources(re.compile("|".join(name.partition(".")[0] for name in SERVING))):
        if str(path.relative_to(ROOT)) in SERVES:
            continue
        assert not imported(tree) & SERVING, f"{path}: a server of pages needs tests of L13 of its own"


def test_l3_no_module_writes_markup() -> None:
    # Also of texts that are put together of several literals.
    for path, tree in sources(re.compile(r"""<[a-z"']|text/|\\x3c""", re.IGNORECASE)):
        if str(path.relative_to(ROOT)) in RECOGNISES:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not MARKUP.search(node.value), (
                    f"{path}:{node.lineno}: markup belongs to replay/page/assets"
                )


@pytest.mark.parametrize("case", HOSTILE)
def test_l2_a_hostile_text_is_the_same_value_in_printed_json(
    case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    emit_json({"text": HOSTILE[case]})
    assert json.loads(capsys.readouterr().out) == {"text": HOSTILE[case]}
