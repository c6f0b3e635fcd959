"""L13: the server of `callboard ui --follow`: who gets the page, and that it grows with its session."""

import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, browser, needs_browser
from tests.pages import ROOT
from tests.processes import running

pytest.importorskip("uvicorn")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

HOSTILE = '</script><script>alert(1)</script><svg onload="alert(1)"><img src=x onerror=alert(1)>'
WRITER = '''
import asyncio, sys
from callboard import Agent, Runtime, ScriptedModel, call, say, tool

@tool(effect="read")
def look(words: str) -> str:
    """Look."""
    return f"seen {words}"

def policy(request):
    last = str(request.conversation[-1]["content"])
    return say("Done.") if "tool_result" in last else call("look", words=last)

async def main():
    async with Runtime(sys.argv[1], model=ScriptedModel(policy)) as runtime:
        session = await runtime.open(Agent("host", tools=[look]), session_id="live")
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            if line.strip() == "close":
                await session.close()
            else:
                await session.ask(line.strip())
            print("done", flush=True)

asyncio.run(main())
'''


class Writer:
    """A session that another process writes, ask by ask."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._line()

    def _line(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() in ("ready", "done")

    def ask(self, words: str) -> None:
        """Ask, and wait for the end of the ask; `close` closes the session."""
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        self._line()


def started(*command: str, **options: Any) -> AbstractContextManager["subprocess.Popen[str]"]:
    """Start a process and end it afterwards."""
    return running(command, text=True, stdout=subprocess.PIPE, cwd=ROOT, **options)


@contextmanager
def served(log: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Serve the newest session of a log; yields the process and the address."""
    command = [sys.executable, "-m", "callboard", "ui", "--follow", "--no-open", "--log", str(log), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with started(*command, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    (tmp_path / "writer.py").write_text(WRITER)
    command = (sys.executable, str(tmp_path / "writer.py"), str(tmp_path / "live.db"))
    with started(*command, stdin=subprocess.PIPE) as process:
        found = Writer(process)
        found.ask("one")
        yield found


def get(
    address: str, path: str = "", method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Ask the server. path: in place of the address's own. headers: with `_` for `-`."""
    _, _, host, own = address.split("/", 3)
    connection = http.client.HTTPConnection(host, timeout=20)
    connection.putrequest(method, path or f"/{own}", skip_host=True)
    for name, value in {"Host": host, **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return found


def more_of(address: str, query: str = "lines=0&events=0") -> str:
    """Return the path at which a page asks for more."""
    return f"/{address.split('/', 3)[3]}more?{query}"


@pytest.fixture(scope="module")
def address(recorded: Path) -> Iterator[str]:
    with served(recorded) as (_, found):
        yield found


def test_l13_only_the_address_with_its_token_gives_the_page(address: str) -> None:
    status, body, headers = get(address)
    assert status == 200
    assert b'id="data"' in body
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in headers
    assert get(address, more_of(address))[0] == 200
    token = address.split("/")[3]
    assert len(token) >= 43
    other = "A" if token[-1] != "A" else "B"
    wrong = [
        "/",
        "/more?lines=0&events=0",
        f"/{token}",
        f"/{token[:-1]}/",
        f"/{token[:-1]}{other}/",
        f"/{token}x/",
        f"/{token.swapcase()}/more?lines=0&events=0",
        f"/{token}/../",
        f"/{token}/etc/passwd",
        f"//{token}/",
        f"/%2e%2e/{token}/",
        "/" + "A" * 5_000 + "/",
    ]
    for path in wrong:
        status, body, _ = get(address, path)
        assert (status, body) == (404, b""), path


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_l13_a_request_of_another_site_is_refused(address: str, headers: dict[str, str]) -> None:
    for path in ("", more_of(address)):
        status, body, _ = get(address, path, **headers)
        assert (status, body) == (403, b""), headers


def test_l13_the_own_names_and_origin_are_allowed(address: str) -> None:
    port = address.split("/")[2].split(":")[1]
    assert get(address, Host=f"localhost:{port}")[0] == 200
    assert get(address, Origin=f"http://127.0.0.1:{port}", Sec_Fetch_Site="same-origin")[0] == 200
    assert get(address, Sec_Fetch_Site="none")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])
def test_l13_nothing_but_get_is_answered(address: str, method: str) -> None:
    assert get(address, method=method)[0] == 405


@pytest.mark.parametrize(
    "query", ["", "lines=x&events=0", "lines=-1&events=0", "lines=9&events=" + "9" * 400]
)
def test_l13_a_question_that_makes_no_sense_is_refused(address: str, query: str) -> None:
    assert get(address, more_of(address, query))[0] == 410


def test_l13_every_server_has_another_token(recorded: Path, address: str) -> None:
    with served(recorded) as (_, other):
        assert other.split("/")[3] != address.split("/")[3]


def test_control_c_ends_the_server_without_an_error(recorded: Path) -> None:
    with served(recorded) as (process, address):
        assert get(address)[0] == 200
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert "Traceback" not in said


def test_a_port_in_use_is_refused_in_words(recorded: Path, address: str) -> None:
    port = address.split("/")[2].split(":")[1]
    with served(recorded, "--port", port) as (process, _):
        _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "cannot be used" in said


def until(tab: Browser, code: str, wanted: object) -> None:
    """Wait until an expression in the page has a value."""
    found = tab.run(code)
    for _ in range(600):
        if found == wanted:
            return
        time.sleep(0.05)
        found = tab.run(code)
    raise AssertionError((code, found, wanted, tab.console))


@needs_browser
def test_the_page_grows_with_a_session_that_another_process_writes(writer: Writer, tmp_path: Path) -> None:
    log = tmp_path / "live.db"
    with served(log) as (_, address), browser() as tab:
        tab.visit(address)
        before = tab.run("callboard.session.count")
        assert before > 5
        tab.press("G")
        writer.ask(HOSTILE)
        writer.ask("and one more")
        head = events_in(log)
        until(tab, "callboard.session.count", head)
        until(tab, "callboard.seq", head)  # the last event was chosen, and is again
        assert tab.run("callboard.session.bodies.every((body, seq) => !seq || body.startsWith('{'))")
        check_request(tab, log)
        tab.run("callboard.read('host'); document.getElementById('reading').scrollTop = 60")
        assert tab.run("document.getElementById('reading').scrollTop") == 60
        writer.ask("and more to read")
        until(tab, "callboard.session.count", events_in(log))
        assert tab.run("document.getElementById('reading').scrollTop") == 60
        tab.run("callboard.select(3)")
        writer.ask("close")
        until(tab, "document.getElementById('live').textContent", "closed")
        assert tab.run("callboard.seq") == 3
        tab.run("callboard.search('and one more')")
        assert tab.run("callboard.found.length") > 0
        assert (tab.dialogs, tab.console) == ([], [])
        port = address.split("/")[2]
        assert {one.split("/")[2] for one in tab.requests if one.startswith("http")} == {port}


def check_request(tab: Browser, log: Path) -> None:
    """Compare the last request in the page with the recorded one."""
    grants = "callboard.session.kinds.map((kind, seq) => (kind === 'CallModel' ? seq : 0))"
    seq = tab.run(f"Math.max(...{grants})")
    asked = json.loads(run("request", f"live#{seq}", "--json", "--log", str(log)))
    assert tab.run(f"callboard.states.requestOf({seq}).messages.length") == len(asked["messages"])


@needs_browser
def test_a_page_of_another_origin_cannot_read_the_session(recorded: Path, address: str) -> None:
    with browser() as tab, served(recorded) as (_, other):
        tab.visit(other)
        tried = f"fetch({json.dumps(address)}).then(() => 'read', () => 'refused')"
        assert tab.run(tried) == "refused"
        assert re.search("Content Security Policy|blocked", " ".join(tab.console))


@needs_browser
def test_a_page_whose_log_is_damaged_says_so_and_so_does_the_terminal(writer: Writer, tmp_path: Path) -> None:
    log = tmp_path / "live.db"
    with served(log) as (process, address), browser() as tab:
        tab.visit(address)
        writer.ask("two")
        count = events_in(log)
        until(tab, "callboard.session.count", count)
        cut_off_last(log)
        until(tab, "document.getElementById('live').textContent", "chain broken")
        assert tab.run("callboard.session.count") == count
        assert f"now, and had {count} before" in tab.run("document.getElementById('live').title")
        process.terminate()
        assert process.stderr is not None
        assert process.stderr.read().count("the page shows no further events") == 1


def cut_off_last(log: Path) -> None:
    """Take the last event out of a log, as a hand that hides it would."""
    with sqlite3.connect(log) as database:
        database.execute("DELETE FROM events WHERE id = (SELECT max(id) FROM events)")
        database.execute("UPDATE sessions SET head = head - 1")


def events_in(log: Path) -> int:
    return int(json.loads(run("show", "live", "--json", "--log", str(log)))["events"])


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "callboard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
