import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Callboard
from tests.messages_api import MessagesApi, json_answer, message, text

PROGRAM = """
import json, os, urllib.error, urllib.request
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
for question in ("2+3?", "4+4?"):
    body = {"model": "claude-x", "max_tokens": 100, "messages": [{"role": "user", "content": question}]}
    told = {"x-api-key": "sk-ant-secret-key", "content-type": "application/json"}
    try:
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), told)).read()
    except urllib.error.HTTPError as error:
        raise SystemExit(7 if error.code == 403 else 8)
"""


def test_a_program_is_recorded_with_its_exit_code_and_its_sessions(
    callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MessagesApi([json_answer(message(text("5."))), json_answer(message(text("8.")))]) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        log = str(tmp_path / "r.db")
        done = callboard("record", "--name", "r1", "--log", log, "--", sys.executable, "-c", PROGRAM)
        assert (done.exit_code, len(api.seen)) == (0, 2)
    assert "2 requests in 2 sessions recorded into" in done.stderr
    listed = callboard("sessions", "--tag", "recording:r1", "--json", "--log", log)
    assert listed.stdout.count('"answered"') == 2
    assert b"sk-ant-secret-key" not in b"".join(one.read_bytes() for one in tmp_path.glob("r.db*"))


def test_a_limit_is_told_to_the_program_and_a_missing_program_is_an_error(
    callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = str(tmp_path / "r.db")
    with MessagesApi([]) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        words = ("--limit", "1usd", "--log", log, "--", sys.executable, "-c", PROGRAM)
        done = callboard("record", *words)
        assert (done.exit_code, api.seen) == (7, [])
    assert "refused by a limit or a missing price, and not sent: 1" in done.stderr
    gone = callboard("record", "--log", log, "--", "no-such-program")
    assert (gone.exit_code, "'no-such-program' does not exist" in gone.stderr) == (3, True)
    odd = callboard("record", "--limit", "1usd/day", "--log", log, "--", "true")
    assert (odd.exit_code, "leave the period out" in odd.stderr) == (2, True)
