import json
from pathlib import Path

import pytest

from callboard.actors.protocol.request import ModelRequest
from callboard.cli.diagnose_command import lines_of
from callboard.cli.output import WIDE
from callboard.replay.diagnosis.finding import Finding
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, Step, call, say
from callboard.runtime.runtime import Runtime
from tests.cli.conftest import Callboard


def test_a_finding_has_its_event_and_the_next_command(callboard: Callboard) -> None:
    done = callboard("diagnose", "20250101")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["!", "10"]
    assert "host.2 failed below it (denied): there is no agent 'nobody' to delegate to" in lines[0]
    assert lines[1].strip() == "callboard why 20250101-survey#10"


def test_the_next_command_works(callboard: Callboard) -> None:
    for session in ("20250101", "20250103"):
        for finding in json.loads(callboard("diagnose", session, "--json").stdout)["findings"]:
            assert callboard(*finding["command"].split()[1:]).exit_code == 0


def test_a_healthy_session_has_no_finding(callboard: Callboard) -> None:
    assert "nothing found in the" in callboard("diagnose", "20250102").stdout


def test_show_and_tree_begin_with_the_findings(callboard: Callboard) -> None:
    for command in ("show", "tree"):
        said = callboard(command, "20250101").stderr.splitlines()
        assert said[0].startswith("! event 10: the ask ended well, but host.2 failed below it")
        assert any("callboard diagnose 20250101-survey" in line for line in said)
        assert "diagnose" not in callboard(command, "20250102").stderr


def finding(says: str) -> Finding:
    return Finding("loop", 26, "host", says, "events {session} --grouped")


def test_a_sentence_is_broken_between_words_and_stands_beside_its_event() -> None:
    says = "host called look with the same arguments 5 times, and got the same result every time"
    *sentence, command = (line.plain for line in lines_of("s", [finding(says)], "", 60))
    assert sentence == [
        "!         26  host called look with the same arguments 5",
        "              times, and got the same result every time",
    ]
    assert command == "              callboard events s --grouped"
    assert len(lines_of("s", [finding(says)], "", WIDE)) == 2


def test_the_findings_above_a_view_are_broken_between_words(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.cli.diagnose_command.width_of_stderr", lambda: 40)
    said = callboard("show", "20250101").stderr.splitlines()
    assert said[0] == "! event 10: the ask ended well, but"
    assert said[1].startswith("host.2 failed below it")


def refusing(folder: Path) -> str:
    """Record a session whose host calls a tool that does not exist, and goes on."""

    def policy(request: ModelRequest) -> Step:
        return call("rates", pair="EURUSD") if request.turn == 1 else say("The rate is 1.10.")

    path = str(folder / "refused.db")
    Runtime(path, model=ScriptedModel(policy)).run_sync(Agent("host"), "Rate?", session_id="one")
    return path


def test_a_call_that_an_agent_refused_is_found_by_every_view(callboard: Callboard, tmp_path: Path) -> None:
    path = refusing(tmp_path)
    reason = "There is no tool named 'rates'. Tools: none."
    assert (
        f"host called rates, which did not run, and went on without it: {reason}"
        in callboard("diagnose", "--log", path).stdout
    )
    (row,) = (
        line
        for line in callboard("events", "--grouped", "--log", path).stdout.splitlines()
        if "refused" in line
    )
    assert row.split()[2:5] == ["refused", "rates", "refused"]
    assert row.split()[0] == "6-6"
    assert row.endswith(f'{{"pair":"EURUSD"}} → {reason}')
    (span,) = (
        span
        for span in map(
            json.loads, callboard("events", "--grouped", "--json", "--log", path).stdout.splitlines()
        )
        if span["kind"] == "refused"
    )
    assert (span["first"], span["name"], span["reason"]) == (6, "rates", reason)
    (match,) = map(
        json.loads, callboard("search", "no tool named", "--json", "--log", path).stdout.splitlines()
    )
    assert (match["seq"], match["path"], match["value"]) == (6, "refused.0", reason)
    text = callboard("export", "--format", "markdown", "--log", path).stdout
    assert text.index("**Call of rates (event 6)**") < text.index("**Not run: rates (event 6)**")
    assert text.index("**Not run: rates (event 6)**") < text.rindex("The rate is 1.10.")
