import asyncio
import json
from pathlib import Path

import pytest

from callboard import Agent, Fallback, Limits, Reply, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.client_messages import AskEnded
from callboard.cli import summary_view
from callboard.models import ModelFailure
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.cli.conftest import Callboard
from tests.cli.recorded import add_session, rows_of
from tests.replay.stories import WRONG, asked_twice, poisoned_sum


def test_a_session_is_summed_up_with_prompt_result_usage_and_head(callboard: Callboard) -> None:
    done = callboard("show", "20250101-survey")
    assert done.exit_code == 0
    facts = done.stdout
    for words in (
        "3 agents, 1 tool call",
        "4 model calls, 8 tokens",
        "ok: answered in text",
        "There are 3 files.",
    ):
        assert words in facts
    assert "head     28:" in facts
    assert "callboard tree 20250101-survey" in done.stderr


def test_without_a_name_the_newest_session_is_meant(callboard: Callboard) -> None:
    assert callboard("show").stdout.splitlines()[0].split() == ["session", "20250103-failed"]


def test_the_beginning_of_an_id_is_enough_if_it_is_one_sessions_only(callboard: Callboard) -> None:
    assert "20250102-report" in callboard("show", "20250102").stdout
    unclear = callboard("show", "2025")
    assert unclear.exit_code == 2
    assert "20250101-survey" in unclear.stderr


def test_an_unknown_session_is_answered_with_those_there_are(callboard: Callboard) -> None:
    done = callboard("show", "nonsense")
    assert done.exit_code == 3
    assert done.stdout == ""
    assert "20250103-failed, 20250102-report" in done.stderr


def test_as_json_there_are_the_asks_with_prompt_schema_and_result(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250102", "--json").stdout)
    assert found["usage"]["tokens"] == 4
    assert found["head"].startswith("23:")
    (ask,) = found["asks"]
    assert ask["prompt"] == "Count."
    assert ask["schema"]["required"] == ["count"]
    assert ask["ended"]["structured_output"] == {"count": 3}
    assert ask["ended"]["kind"] == "reported"


def test_a_report_is_printed_as_json_and_a_failure_with_its_reason(callboard: Callboard) -> None:
    assert '"count": 3' in callboard("show", "20250102").stdout
    failed = callboard("show", "20250103").stdout
    assert "failed (model_error): its model failed: script_error" in failed


def test_what_failed_below_an_ok_is_in_the_headline_with_the_tools_own_traceback(
    callboard: Callboard, tmp_path: Path
) -> None:
    @tool(effect="read")
    async def broken() -> str:
        """Look a town up."""
        raise KeyError("town")

    async def main(path: Path) -> None:
        kid = Agent("kid", limits=Limits(max_model_attempts=1))
        model = ScriptedModel(
            {
                "host": [
                    Reply(calls=(call("broken"), call("task", agent="kid", prompt="go"))),
                    say("done all the same"),
                ],
                "kid": [ModelFailure("overloaded", "try later")],
            }
        )
        async with Runtime(path, model=model) as runtime:
            outcome = await runtime.run(Agent("host", tools=[broken], agents=[kid]), "go")
        assert outcome.is_ok

    log = tmp_path / "log.db"
    asyncio.run(main(log))
    done = callboard("show", "--log", str(log))
    assert "ok: answered in text" in done.stdout
    assert "below it 1 delegation failed, 1 tool call failed" in done.stdout
    assert ", host:1:0: broken: KeyError: 'town'" in done.stdout
    assert ", host:1:1 to host.1: model_error: " in done.stdout
    assert 'raise KeyError("town")' in done.stdout
    found = json.loads(callboard("show", "--log", str(log), "--json").stdout)
    whys = {each["kind"]: each["why"] for each in found["failures"]}
    assert whys == {"delegation": "overloaded: try later", "tool": "KeyError: 'town'"}


def test_an_ask_without_an_outcome_says_so(
    callboard: Callboard, own_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_of(own_log, "20250101-survey")[:12]
    add_session(own_log, "cut", rows)
    monkeypatch.setattr(summary_view, "now_ms", lambda: rows[-1].at + 4_200)
    text = callboard("show", "cut", "--log", str(own_log)).stdout
    assert "none yet" in text
    assert "open: its ask still runs, or its process ended; the last event was 4.2s ago" in text
    found = json.loads(callboard("show", "cut", "--log", str(own_log), "--json").stdout)
    assert found["asks"][0]["ended"] is None


def test_a_session_between_two_asks_is_open_and_runs_nothing(callboard: Callboard, own_log: Path) -> None:
    rows = rows_of(own_log, "20250101-survey")
    ended = next(at for at, row in enumerate(rows, 1) if isinstance(row.body, AskEnded))
    add_session(own_log, "idle", rows[:ended])
    text = callboard("show", "idle", "--log", str(own_log)).stdout
    assert "open: no ask is running" in text


def test_an_answered_question_counts_as_a_turn_of_its_program(callboard: Callboard, tmp_path: Path) -> None:
    path = tmp_path / "asked.db"
    events = list(asked_twice().events)
    add_session(path, "one", events)
    assert "1 agent, 0 tool calls, 2 questions to models" in callboard("show", "--log", str(path)).stdout
    found = json.loads(callboard("show", "--log", str(path), "--json").stdout)
    assert (found["agents"], found["questions"], found["usage"]["input_tokens"]) == (1, 2, 600)
    grant = str(next(event.seq for event in events if event.sender == "host.2"))
    asked = callboard("request", "one", grant, "--log", str(path)).stdout
    assert "host, its question host.2, turn 1, attempt 1" in asked


def test_the_tree_has_delegations_and_denials(callboard: Callboard) -> None:
    lines = callboard("tree", "20250101").stdout.splitlines()
    assert [line.split(" answered")[0].split(" denied")[0].rstrip() for line in lines[1:4]] == [
        "✓ host",
        "├─ ✓ host.1 counter",
        "└─ ✗ host.2 nobody",
    ]
    assert "there is no agent 'nobody'" in lines[3]
    assert lines[4].startswith("3 agents: 2 ok, 1 failed; 8 tokens")


def test_the_tree_can_be_seen_as_it_was_at_an_event(callboard: Callboard) -> None:
    text = callboard("tree", "20250101", "--at", "14").stdout
    assert "tool count_files" in text
    assert callboard("tree", "20250101", "--at", "99").exit_code == 3


def test_the_tree_as_json_is_nested(callboard: Callboard) -> None:
    found = json.loads(callboard("tree", "20250101", "--json").stdout)
    host = found["tree"]
    assert host["status"] == "ok"
    assert [child["address"] for child in host["children"]] == ["host.1", "host.2"]
    assert host["usage_with_children"]["tokens"] == 8
    assert host["usage"]["tokens"] == 4
    assert host["children"][1]["kind"] == "denied"


def test_a_log_without_sessions_says_what_to_do(callboard: Callboard, tmp_path: Path) -> None:
    async def make() -> None:
        log = SQLiteLog(tmp_path / "new.db", durability="process")
        await log.open()
        await log.close()

    asyncio.run(make())
    done = callboard("sessions", "--log", str(tmp_path / "new.db"))
    assert (done.exit_code, done.stdout) == (0, "")
    assert "callboard run" in done.stderr
    assert callboard("show", "--log", str(tmp_path / "new.db")).exit_code == 3
    assert callboard("verify", "--all", "--log", str(tmp_path / "new.db")).exit_code == 0


def test_a_session_without_events_can_be_looked_at(callboard: Callboard, tmp_path: Path) -> None:
    log = str(tmp_path / "new.db")
    add_session(tmp_path / "new.db", "one", [])
    for command in ("sessions", "show", "tree", "events", "events --step", "verify"):
        for form in ([], ["--json"]):
            assert callboard(*command.split(), *form, "--log", log).exit_code == 0, command


def test_reports_of_siblings_stand_side_by_side(callboard: Callboard) -> None:
    text = callboard("tree", "20250101", "--reports").stdout
    assert "host → counter" in text
    assert "answered  3 files" in text
    found = json.loads(callboard("tree", "20250101", "--reports", "--json").stdout)
    assert [one["agent"] for one in found["siblings"]] == ["nobody", "counter"]
    assert callboard("tree", "20250102", "--reports").stdout == "no delegation has ended\n"
    early = json.loads(callboard("tree", "20250101", "--reports", "--at", "12", "--json").stdout)
    assert [one["agent"] for one in early["siblings"]] == ["nobody"]


def test_reports_around_one_agent_are_its_own_and_those_of_its_siblings(
    callboard: Callboard, own_log: Path
) -> None:
    whole = callboard("tree", "20250101", "--reports").stdout
    assert callboard("tree", "20250101", "--reports", "--actor", "host").stdout == whole
    found = callboard("tree", "20250101", "--reports", "--actor", "host.1", "--json")
    (siblings,) = json.loads(found.stdout)["siblings"]
    assert [report["address"] for report in siblings["reports"]] == ["host.1"]
    gone = callboard("tree", "20250101", "--reports", "--actor", "host.9")
    assert gone.exit_code == 3
    assert "no delegation of or by host.9 has ended" in gone.stderr
    assert callboard("tree", "20250101", "--actor", "host.1").exit_code == 2


def test_the_report_that_differs_from_its_siblings_is_marked(callboard: Callboard, own_log: Path) -> None:
    recording = poisoned_sum()
    add_session(own_log, "poisoned", list(recording.events))
    lines = callboard("tree", "poisoned", "--reports", "--log", str(own_log)).stdout.splitlines()
    assert [line.split()[1] for line in lines if "*" in line] == [f"host.{WRONG}*"]


def test_all_models_of_a_fallback_are_named(callboard: Callboard, tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    models = [ScriptedModel(["Hi."], name=name) for name in ("first", "second", "third")]
    Runtime(str(log), model=Fallback(models)).run_sync(Agent("host"), "Hi.")
    assert "first, then second, then third" in callboard("show", "--log", str(log)).stdout
    shown = json.loads(callboard("show", "--json", "--log", str(log)).stdout)
    assert (shown["model"], shown["fallback"]) == ("first", ["second", "third"])


def test_a_summary_is_of_the_session_up_to_an_event(callboard: Callboard) -> None:
    early = callboard("show", "20250101", "--at", "9", "--json").stdout
    assert json.loads(early)["events"] == 9
    assert callboard("show", "20250101#9", "--json").stdout == early
    assert callboard("show", "20250101", "--at", "99").exit_code == 3


def test_one_view_is_shown_at_a_time_with_its_own_options_only(callboard: Callboard) -> None:
    for options in (("--state", "--budget"), ("--actor", "host"), ("--tools", "--check"), ("--check",)):
        assert callboard("show", "20250101", *options).exit_code == 2, options


def test_each_agent_has_a_line(callboard: Callboard) -> None:
    lines = callboard("show", "20250101", "--budget").stdout.splitlines()
    assert lines[0].split()[:2] == ["AGENT", "SPENT"]
    assert [line.split()[0] for line in lines[1:4]] == ["host", "host.1", "host.2"]
    assert lines[-1] == "no refusal by a budget up to event 28"


def test_an_earlier_event_shows_what_was_reserved_then(callboard: Callboard) -> None:
    found = json.loads(callboard("show", "20250101", "--budget", "--at", "12", "--json").stdout)
    assert found["at"] == 12
    host, child = found["accounts"][:2]
    assert child["reserved"]["tokens"] == host["reserved"]["tokens"] > 0
    assert found["refusal"] is None


def test_an_event_that_is_not_there(callboard: Callboard) -> None:
    assert callboard("show", "20250101", "--budget", "--at", "99").exit_code == 3
