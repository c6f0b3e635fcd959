"""`callboard ui --act --with`: a server that owns its log, and runs forks with its agents."""

import base64
import http.client
import json
import os
import re
import signal
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from callboard.replay.recording import Recording
from callboard.runtime.log.reading import open_reader
from tests.cli.conftest import Callboard
from tests.cli.test_fork_command import AGENTS
from tests.cli.test_page_server import get, started

pytest.importorskip("uvicorn")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def log(tmp_path: Path, callboard: Callboard) -> Path:
    """Record a session of warm:host."""
    (tmp_path / "warm.py").write_text(AGENTS)
    done = callboard("run", "warm.py:host", "How warm is it?", "--log", "own.db", "-q")
    assert done.exit_code == 0, done.stderr
    sys.modules.pop("warm", None)
    return tmp_path / "own.db"


def posted(address: str, token: str, body: object) -> dict[str, object]:
    """Post an act as the page does."""
    _, _, host, own = address.split("/", 3)
    connection = http.client.HTTPConnection(host, timeout=20)
    headers = {"Origin": f"http://{host}", "Content-Type": "application/json", "X-Callboard-Act": token}
    connection.request("POST", f"/{own}act", json.dumps(body), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return dict(answer)


def test_a_server_with_agents_owns_the_log_until_control_c(log: Path, callboard: Callboard) -> None:
    with open_reader(log) as reader:
        (row,) = reader.sessions()
    with Recording.open(log, row.session_id) as recording:
        seq = next(event.seq for event in recording.events if event.kind == "ToolReturned")
    command = [sys.executable, "-m", "callboard", "ui", "--act", "--no-open", "--log", str(log)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    agents = str(log.with_name("warm.py:host"))
    with started(*command, "--with", agents, env=environment) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        page = get(address, f"/{address.split('/', 3)[3]}session?{urlencode({'session': row.session_id})}")[1]
        boot = re.search(rb'id="boot">([^<]*)<', page)
        assert boot is not None
        token = json.loads(base64.b64decode(boot[1]))["token"]
        assert token not in address
        other = callboard("ui", "--act", "--log", str(log), "--with", agents)
        assert other.exit_code == 1
        assert f"process {process.pid} owns" in other.stderr
        assert "leave --with out" in other.stderr
        does = {"command": "fork", "session": row.session_id, "seen": row.head, "limits": {"tokens": 500_000}}
        act = {"id": "request-1", "does": {**does, "changes": {str(seq): "999 degrees"}}}
        begun = posted(address, token, act)
        assert "value" in begun, begun
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    with open_reader(log) as reader:
        fork = reader.sessions()[0]
    assert (fork.parent, fork.status in ("closed", "unfinished")) == (row.session_id, True)
