import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.agents import Terminal, lines_with, piped, waiting_run
from tests.cli.conftest import Callboard, on_own_log

TYPED = """
import datetime
import pydantic
from callboard import Agent, ScriptedModel, call

class Count(pydantic.BaseModel):
    number: int = pydantic.Field(alias="files")
    seen: datetime.date
    tags: set[str]

report = call("report_back", files=3, seen="2026-01-02", tags=["b", "a"])
host = Agent("host", output_schema=Count, model=ScriptedModel([report]))
"""
SCHEMA = '{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}'
needs_terminals = pytest.mark.skipif(sys.platform == "win32", reason="this system has no pseudo-terminals")


@pytest.fixture
def run(folder: Path, callboard: Callboard) -> Callboard:
    """Run `callboard run` in this process, with a log of its own."""
    return on_own_log(callboard, folder, "run")


def test_the_result_alone_goes_to_stdout(run: Callboard) -> None:
    done = run("survey:host", "How many files?")
    assert done.exit_code == 0
    assert done.stdout == "There are 3 files.\n"
    assert "the module is loaded" in done.stderr
    assert "counting src" in done.stderr


def test_off_a_terminal_each_start_end_and_denial_is_one_line(run: Callboard) -> None:
    said = run("survey:host", "How many files?").stderr
    assert len(lines_with(said, "start  host: How many files?")) == 1
    assert len(lines_with(said, "start  host.1 counter: Count the files in src")) == 1
    assert len(lines_with(said, "end    host.1 counter: answered; 2 turns, 1 tool, 4 tokens")) == 1
    assert len(lines_with(said, "denied host.2 nobody: there is no agent 'nobody'")) == 1
    assert len(lines_with(said, "end    host: answered; 2 turns")) == 1
    assert "\x1b" not in said


def test_the_summary_has_all_that_is_needed_to_look_again(
    run: Callboard, folder: Path, callboard: Callboard
) -> None:
    said = run("survey:host", "How many files?").stderr
    assert "ok: answered in text" in said
    assert "4 model calls, 8 tokens (4 in, 4 out)" in said
    (where,) = lines_with(said, ", head ")
    session, head = where.split()[1], where.rpartition(" ")[2]
    log = str(folder / "own.db")
    assert callboard("verify", session, "--log", log, "--head", head).exit_code == 0
    assert f"callboard show {session} --log {log}" in said


def test_a_report_is_printed_as_json(run: Callboard, folder: Path) -> None:
    (folder / "count.json").write_text(SCHEMA)
    done = run("survey:reporter", "Count.", "--schema", str(folder / "count.json"))
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"count": 3}


def test_a_report_of_an_agents_own_type_is_printed_as_the_json_that_it_was(
    run: Callboard, folder: Path
) -> None:
    (folder / "typed.py").write_text(TYPED)
    done = run("typed:host", "Count.")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout) == {"files": 3, "seen": "2026-01-02", "tags": ["b", "a"]}
    assert json.loads(run("typed:host", "Count.", "--json").stdout)["structured_output"]["files"] == 3


def test_as_json_it_is_one_document(run: Callboard) -> None:
    found = json.loads(run("survey:host", "How many files?", "--json").stdout)
    assert (found["status"], found["kind"], found["text"]) == ("ok", "answered", "There are 3 files.")
    assert found["usage"]["tokens"] == 8
    assert found["log"].endswith("own.db")
    assert found["head"].count(":") == 1


def test_a_failed_run_has_no_result_and_its_partial_work_stands_behind_a_margin(run: Callboard) -> None:
    done = run("survey:failing", "Try.")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "failed (model_error): its model failed" in done.stderr
    assert "  | I got this far.\n  | error: forged" in done.stderr
    assert "\x1b" not in done.stderr
    found = json.loads(run("survey:failing", "Try.", "--json").stdout)
    assert (found["status"], found["text"]) == ("failed", "I got this far.\nerror: forged")


def test_quiet_says_nothing_but_the_result(run: Callboard) -> None:
    run("survey:reporter", "x", "-q")
    done = run("survey:host", "How many files?", "--quiet")
    assert done.stdout == "There are 3 files.\n"
    assert "start" not in done.stderr
    assert "session" not in done.stderr


def test_quiet_still_says_why_there_is_no_result(run: Callboard) -> None:
    done = run("survey:failing", "Try.", "-q")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "failed (model_error): its model failed" in done.stderr
    assert "to look at it: callboard show" in done.stderr
    assert "start" not in done.stderr
    assert "model_error" not in run("survey:failing", "Try.", "-q", "--json").stderr


def test_the_prompt_may_come_from_stdin(run: Callboard, folder: Path, callboard: Callboard) -> None:
    assert run("survey:host", "-", text="How many\nfiles?").exit_code == 0
    shown = json.loads(callboard("show", "--json", "--log", str(folder / "own.db")).stdout)
    assert shown["asks"][0]["prompt"] == "How many\nfiles?"
    assert run("survey:host", "-", text=" \n").exit_code == 2


def test_a_limit_bounds_the_run(run: Callboard) -> None:
    done = run("survey:host", "How many files?", "--limit", "max_iterations=1", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["kind"] == "iteration_cap"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("survey:modelless", "x"), 2),
        (("survey:modelless", "x", "--model", "claude-sonnet-5"), 2),
        (("survey:host", "x", "--limit", "tokens=abc"), 2),
        (("survey:host", "x", "--limit", "cost_usd=1"), 2),
        (("survey:host", "x", "--budget", "*=1"), 2),
        (("survey:host", "x", "--budget", "*=1usd"), 2),
        (("survey:host", "x", "--schema", "none.json"), 3),
        (("survey:nobody", "x"), 3),
        (("survey:host", " "), 2),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_recorded(
    run: Callboard, folder: Path, callboard: Callboard, arguments: tuple[str, ...], code: int
) -> None:
    done = run(*arguments)
    assert done.exit_code == code
    assert done.stdout == ""
    assert len(lines_with(done.stderr, "error: ")) == 1
    listed = callboard("sessions", "--log", str(folder / "own.db"))
    assert "20" not in listed.stdout


@pytest.mark.slow
def test_through_real_pipes_the_streams_and_the_exit_code_are_the_same(folder: Path) -> None:
    done = piped(folder, "run", "survey:host", "How many files?")
    assert done.returncode == 0
    assert done.stdout == "There are 3 files.\n"
    assert "\x1b" not in done.stderr
    assert piped(folder, "run", "survey:failing", "Try.", "-q").returncode == 1


@pytest.mark.slow
def test_a_log_that_another_process_writes_is_refused_with_advice(folder: Path) -> None:
    with waiting_run(folder) as other:
        done = piped(folder, "run", "survey:host", "x")
        assert done.returncode == 1
        assert len(lines_with(done.stderr, "error: ")) == 1
        assert "--log" in done.stderr
        assert piped(folder, "tree").returncode == 0  # looking is always possible
        other.send_signal(signal.SIGTERM)
        assert other.wait(timeout=15) == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_named_secret_is_given_to_tools_and_kept_out_of_everything(folder: Path) -> None:
    done = piped(folder, "run", "survey:peeking", "Peek.", "--secret", "DOOR", DOOR="open-sesame-4711")
    assert done.returncode == 0
    assert "the code is [secret:DOOR]" in done.stdout
    assert not any(b"open-sesame" in path.read_bytes() for path in folder.iterdir() if path.is_file())
    unnamed = piped(folder, "run", "survey:peeking", "Peek.", DOOR="open-sesame-4711")
    assert "there is no secret" in unnamed.stdout


@pytest.mark.slow
@needs_terminals
def test_on_a_terminal_a_tree_is_drawn_and_the_cursor_given_back(folder: Path) -> None:
    with Terminal(folder, "run", "survey:host", "How many files?") as terminal:
        assert terminal.end() == 0
        assert "└─ ✗ host.2 nobody" in terminal.text
        assert "3 agents: 2 ok, 1 failed" in terminal.text
        assert "counting src" in terminal.shown
        assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1
        assert "\x1b[32m" in terminal.shown


@pytest.mark.slow
@needs_terminals
def test_no_color_takes_the_colours_and_a_dumb_terminal_the_drawing(folder: Path) -> None:
    with Terminal(folder, "run", "survey:host", "How many files?", NO_COLOR="1") as plain:
        assert plain.end() == 0
        assert "\x1b[32m" not in plain.shown
        assert "└─ ✗ host.2 nobody" in plain.text
    with Terminal(folder, "run", "survey:host", "How many files?", TERM="dumb") as dumb:
        assert dumb.end() == 0
        assert "\x1b" not in dumb.shown
        assert "denied host.2 nobody" in dumb.shown


@pytest.mark.slow
@needs_terminals
@pytest.mark.parametrize("uvloop", ["0", "1"])
def test_ctrl_c_leaves_and_says_how_to_go_on(folder: Path, uvloop: str) -> None:
    with Terminal(folder, "run", "survey:waiting", "Wait.", CALLBOARD_UVLOOP=uvloop) as terminal:
        terminal.until("tool wait")
        terminal.type("\x03")
        terminal.until("leaving; work in progress is recorded")
        assert terminal.end() == 130
        assert "MODULE:AGENT continues it" in terminal.shown
    assert "unfinished" in piped(folder, "sessions").stdout
    assert piped(folder, "verify").returncode == 0


@pytest.mark.slow
@needs_terminals
def test_ctrl_c_twice_leaves_at_once_and_the_log_stays_whole(folder: Path) -> None:
    with Terminal(folder, "run", "survey:blocking", "Wait.") as terminal:
        terminal.until("tool block")
        terminal.type("\x03")
        terminal.until("leaving; work in progress")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert terminal.shown.count("\x1b[?25l") == terminal.shown.count("\x1b[?25h") == 1
    assert piped(folder, "verify").returncode == 0


def test_the_model_of_another_provider_is_named_with_it(run: Callboard, folder: Path) -> None:
    done = run("survey:modelless", "x", "--model", "scripted:survey:greeting")
    assert (done.exit_code, done.stdout) == (0, "Hello.\n")


def test_an_unknown_provider_is_refused_before_anything_is_recorded(run: Callboard, folder: Path) -> None:
    done = run("survey:modelless", "x", "--model", "nowhere:small")
    assert done.exit_code == 2
    assert "error: there is no model provider 'nowhere'; installed providers: anthropic, " in done.stderr
    assert not (folder / "own.db").exists()


def test_a_budget_bounds_all_runs_with_its_tag(run: Callboard, callboard: Callboard, folder: Path) -> None:
    tagged = ("survey:host", "How many files?", "--json", "--tag", "tenant:a", "--budget")
    kinds = [
        json.loads(run(*tagged, f"tenant:*={limit}").stdout)["kind"] for limit in ("100k tokens", "8tokens")
    ]
    assert kinds == ["answered", "budget"]
    spent = json.loads(callboard("budgets", "--json", "--log", str(folder / "own.db")).stdout)["spent"]
    assert [(one["scope"], one["tokens"]) for one in spent] == [("tenant:*=tenant:a", 8)]
