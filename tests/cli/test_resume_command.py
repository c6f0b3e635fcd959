import asyncio
import json
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded, Resumed, SessionClosed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.runtime import Runtime
from tests.cli.agents import SURVEY, Terminal, lines_with, piped, waiting_run
from tests.cli.conftest import Callboard, on_own_log
from tests.cli.recorded import add_session, damage, diverging, rows_of

NAME = "20260101-cut"
needs_terminals = pytest.mark.skipif(sys.platform == "win32", reason="this system has no pseudo-terminals")


@pytest.fixture
def whole(folder: Path, callboard: Callboard) -> list[Event]:
    """Record a session of `survey:host` that ends normally, and return its events."""
    log = folder / "whole.db"
    done = callboard(
        "run", "survey:host", "How many files?", "--limit", "deadline_s=60", "--log", str(log), "-q"
    )
    assert done.exit_code == 0
    return rows_of(log, newest(log))


@pytest.fixture
def resume(folder: Path, callboard: Callboard) -> Callboard:
    """Run `callboard resume` in this process, on a log of its own."""
    return on_own_log(callboard, folder, "resume")


def newest(log: Path) -> str:
    with SQLiteReader(log) as reader:
        return reader.sessions()[0].session_id


def leave(folder: Path, events: list[Event], name: str = NAME) -> Path:
    """Make a log with a session whose process died after these events."""
    add_session(folder / "own.db", name, events)
    return folder / "own.db"


def before(events: list[Event], kind: type, nth: int = 0) -> list[Event]:
    """Return the events before the nth of a kind."""
    return events[: [event.seq for event in events if isinstance(event.body, kind)][nth] - 1]


def of(events: list[Event], kind: type) -> list[Event]:
    return [event for event in events if isinstance(event.body, kind)]


# --- unfinished work ----------------------------------------------------------------


def test_unfinished_work_is_finished_printed_like_a_run_and_closed(
    resume: Callboard, folder: Path, whole: list[Event], callboard: Callboard
) -> None:
    log = leave(folder, before(whole, ToolReturned))
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (0, "There are 3 files.\n")
    assert "ok: answered in text" in done.stderr
    assert f"callboard show {NAME} --log {log}" in done.stderr
    events = rows_of(log, NAME)
    assert isinstance(events[-1].body, SessionClosed)
    assert len(of(events, Resumed)) == 1
    assert callboard("verify", NAME, "--log", str(log)).exit_code == 0


def test_the_beginning_of_an_id_is_enough(resume: Callboard, folder: Path, whole: list[Event]) -> None:
    leave(folder, before(whole, ToolReturned))
    assert resume("2026", "survey:host").exit_code == 0


def test_without_a_session_the_newest_that_was_not_closed_is_meant(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    leave(folder, before(whole, ToolReturned), "older")
    leave(folder, before(whole, ToolReturned), "newer")
    leave(folder, whole, "closed")
    done = resume("survey:host")
    assert done.exit_code == 0
    assert "session newer in" in done.stderr
    assert "session older in" in resume("survey:host").stderr
    last = resume("survey:host")
    assert (last.exit_code, last.stdout) == (3, "")
    assert lines_with(
        last.stderr,
        "error: nothing is left to resume: all sessions of the log are closed or have no prompt",
    )


def test_earlier_events_are_not_shown_again(resume: Callboard, folder: Path, whole: list[Event]) -> None:
    leave(folder, before(whole, ToolReturned))
    said = resume(NAME, "survey:host").stderr
    assert lines_with(said, f"session {NAME} in")
    assert lines_with(said, "resumed after event")
    assert not lines_with(said, "start ")
    assert len(lines_with(said, "end    host.1 counter: answered")) == 1
    assert len(lines_with(said, "end    host: answered")) == 1


def test_as_json_it_is_one_document_and_quiet_says_nothing(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    leave(folder, before(whole, ToolReturned))
    done = resume(NAME, "survey:host", "--json", "-q")
    found = json.loads(done.stdout)
    assert (found["session"], found["status"], found["text"]) == (NAME, "ok", "There are 3 files.")
    assert "session" not in done.stderr


def test_an_ask_that_had_ended_is_told_and_its_session_closed(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, before(whole, SessionClosed)[:-1])
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (0, "There are 3 files.\n")
    assert "has no unfinished ask: its last outcome follows" in done.stderr
    assert isinstance(rows_of(log, NAME)[-1].body, SessionClosed)


def test_a_session_in_which_nothing_was_asked_stays_as_it_is(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, before(whole, Ask))
    recorded = rows_of(log, NAME)
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "has no prompt, so nothing is left to resume" in done.stderr
    assert "stays open" in done.stderr
    assert rows_of(log, NAME) == recorded


def test_without_a_session_one_in_which_nothing_was_asked_is_passed_over(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, before(whole, Ask))
    recorded = rows_of(log, NAME)
    done = resume("survey:host")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "nothing is left to resume" in done.stderr
    assert rows_of(log, NAME) == recorded


def test_a_closed_session_is_left_alone_and_its_outcome_told_again(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, whole)
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (0, "There are 3 files.\n")
    assert "is closed; its last outcome follows" in done.stderr
    assert rows_of(log, NAME) == whole


def test_an_outcome_without_a_result_has_exit_code_1_closed_or_not(
    resume: Callboard, folder: Path, callboard: Callboard
) -> None:
    log = folder / "failed.db"
    callboard("run", "survey:failing", "Try.", "--log", str(log))
    events = rows_of(log, newest(log))
    leave(folder, before(events, ModelReplied, 1), "cut")
    leave(folder, events, "closed")
    for name in ("cut", "closed"):
        done = resume(name, "survey:failing")
        assert (done.exit_code, done.stdout) == (1, ""), name
        assert "failed (model_error)" in done.stderr


# --- options ----------------------------------------------------------------------


def test_deadlines_count_while_the_session_does_not_run_and_can_be_extended(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    old = [msgspec.structs.replace(event, at=1_000) for event in before(whole, ToolReturned)]
    leave(folder, old, "late")
    leave(folder, old, "put-off")
    done = resume("late", "survey:host")
    assert done.exit_code == 1
    assert "failed (deadline)" in done.stderr
    assert resume("put-off", "survey:host", "--extend", "1e10").exit_code == 0


def test_a_limit_changes_and_the_others_stay(resume: Callboard, folder: Path, whole: list[Event]) -> None:
    log = leave(folder, before(whole, ToolReturned))
    assert resume(NAME, "survey:host", "--limit", "tokens=100k").exit_code == 0
    (resumed,) = of(rows_of(log, NAME), Resumed)
    assert isinstance(resumed.body, Resumed)
    assert resumed.body.limits is not None
    assert (resumed.body.limits.tokens, resumed.body.limits.deadline_s) == (100_000, 60.0)


def test_a_budget_binds_a_session_from_its_resume_on(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, before(whole, ToolReturned))
    assert resume(NAME, "survey:host", "--budget", "*=100k tokens").exit_code == 0
    (resumed,) = of(rows_of(log, NAME), Resumed)
    assert isinstance(resumed.body, Resumed)
    assert resumed.body.scopes == ("*",)
    add_session(log, "left", before(rows_of(log, NAME), SessionClosed))
    refused = resume("left", "survey:host")
    assert refused.exit_code == 2
    assert "session left was begun under the budgets '*', which" in refused.stderr
    assert "(--budget)" in refused.stderr
    assert resume("left", "survey:host", "--accept-changes").exit_code == 0


def test_a_host_without_a_model_is_given_the_recorded_one(
    resume: Callboard, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def record() -> None:
        model = ScriptedModel([say("hello")], name="claude-sonnet-5")
        async with Runtime(folder / "model.db", model=model) as runtime:
            sys.path.insert(0, str(folder))
            from survey import modelless  # type: ignore[import-not-found]  # the user's module

            await runtime.run(modelless, "x", session_id=NAME)

    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    asyncio.run(record())
    leave(folder, before(rows_of(folder / "model.db", NAME), SessionClosed)[:-1])
    said = resume(NAME, "survey:modelless").stderr
    assert "has no model" not in said
    assert lines_with(said, "  the model: max_tokens was 1024, is ")


def test_a_recorded_model_whose_provider_is_not_known_is_to_be_named(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    leave(folder, before(whole, ToolReturned))
    done = resume(NAME, "survey:modelless")
    assert done.exit_code == 2
    assert "the log has the model's name 'scripted' without its provider" in done.stderr
    assert "--model PROVIDER:NAME" in done.stderr


# --- other agents than before -----------------------------------------------------


def test_other_agents_are_refused_with_a_list_of_what_has_changed(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    log = leave(folder, before(whole, ToolReturned))
    changed = SURVEY.replace('description="Counts."', 'description="Counts well."')
    (folder / "later.py").write_text(changed.replace('"""Count the files in a folder."""', '"""Count."""'))
    done = resume(NAME, "later:host")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-4:-1] == [
        f"changes since session {NAME} was recorded:",
        "  counter: its description changed",
        "  counter: tool count_files: its description changed",
    ]
    assert "error: " in done.stderr.splitlines()[-1]
    assert "--accept-changes" in done.stderr.splitlines()[-1]
    assert rows_of(log, NAME) == before(whole, ToolReturned)


def test_changes_that_are_accepted_are_recorded(
    resume: Callboard, folder: Path, whole: list[Event], callboard: Callboard
) -> None:
    log = leave(folder, before(whole, ToolReturned))
    (folder / "later.py").write_text(SURVEY.replace('description="Counts."', 'description="Counts well."'))
    assert resume(NAME, "later:host", "--accept-changes").exit_code == 0
    (resumed,) = of(rows_of(log, NAME), Resumed)
    assert isinstance(resumed.body, Resumed)
    assert b"Counts well." in b"".join(resumed.body.profiles)
    assert callboard("verify", NAME, "--log", str(log)).exit_code == 0


# --- what cannot be resumed -------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("nobody", "survey:host"), 3),
        ((NAME, "survey:nobody"), 3),
        ((NAME,), 2),
        ((NAME, "survey:host", "more"), 2),
        ((), 2),
        ((NAME, "survey:host", "--extend", "-1"), 2),
        ((NAME, "survey:host", "--limit", "tokens=abc"), 2),
    ],
)
def test_what_cannot_work_is_refused_and_changes_nothing(
    resume: Callboard, folder: Path, whole: list[Event], arguments: tuple[str, ...], code: int
) -> None:
    log = leave(folder, before(whole, ToolReturned))
    done = resume(*arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert rows_of(log, NAME) == before(whole, ToolReturned)


def test_a_damaged_log_has_exit_code_4(resume: Callboard, folder: Path, whole: list[Event]) -> None:
    log = leave(folder, before(whole, ToolReturned))
    damage(log, 3)
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (4, "")


def test_a_log_that_the_code_contradicts_has_exit_code_5(
    resume: Callboard, folder: Path, whole: list[Event]
) -> None:
    leave(folder, diverging(before(whole, ToolReturned)))
    done = resume(NAME, "survey:host")
    assert (done.exit_code, done.stdout) == (5, "")
    assert "callboard verify" in done.stderr


def test_a_log_that_is_not_there_has_exit_code_3(resume: Callboard, folder: Path) -> None:
    assert resume("survey:host").exit_code == 3
    assert not (folder / "own.db").exists()


# --- killed for real --------------------------------------------------------------


@pytest.mark.slow
@needs_terminals
def test_a_run_that_was_killed_is_resumed_and_ctrl_c_cancels_it(folder: Path) -> None:
    with waiting_run(folder) as run:
        run.send_signal(signal.SIGKILL)
        run.wait(timeout=15)
    listed = json.loads(piped(folder, "sessions", "--json").stdout)["sessions"]
    assert [(one["status"], one["kind"]) for one in listed] == [("unfinished", None)]
    assert "unfinished" in piped(folder, "sessions").stdout
    with Terminal(folder, "resume", "survey:waiting") as terminal:
        terminal.until("tool wait")
        terminal.type("\x03")
        terminal.until("leaving; work in progress is recorded")
        assert terminal.end() == 130
        assert f"callboard resume {listed[0]['session']} MODULE:AGENT continues it" in terminal.shown
    assert piped(folder, "verify").returncode == 0
    rows = rows_of(folder / "callboard.db", listed[0]["session"])
    assert not of(rows, AskEnded)
    assert len(of(rows, Resumed)) == 1
