import atexit
import gc
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from callboard.__main__ import main as program
from callboard.cli import errors
from callboard.cli.main import Commands, cli, main
from tests.cli.agents import command, environment, piped
from tests.cli.conftest import Callboard
from tests.processes import ENDS_WITHIN_S, running
from tests.tables import table

COMMANDS = cli.list_commands(click.Context(cli)) if isinstance(cli, Commands) else []


def test_help_lists_every_command_with_its_description(callboard: Callboard) -> None:
    done = callboard("--help")
    assert done.exit_code == 0
    assert callboard("-h").stdout == done.stdout
    for name in COMMANDS:
        assert re.search(rf"^  {name} +[A-Z]", done.stdout, re.MULTILINE), name
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 corrupt log, 5 diverged" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_examples(callboard: Callboard, name: str) -> None:
    done = callboard(name, "-h")
    assert done.exit_code == 0
    assert f"callboard {name}" in done.stdout.partition("Examples:")[2]
    assert "--debug" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_help_of_the_group_and_of_a_command_agree(callboard: Callboard) -> None:
    listed = callboard("--help").stdout
    for name in COMMANDS:
        told = re.search(rf"^  {name} {{2,}}(.+)$", listed, re.MULTILINE)
        first = " ".join(callboard(name, "--help").stdout.partition("\n\n")[2].split())
        assert told is not None
        assert first.startswith(" ".join(told[1].split()[:3])), name


def test_the_version_is_the_packages(callboard: Callboard) -> None:
    assert callboard("--version").stdout.split()[-1] == vars(sys.modules["callboard"])["__version__"]


def test_no_command_or_an_unknown_one_is_a_mistake_of_usage(callboard: Callboard) -> None:
    assert callboard("nonsense").exit_code == errors.USAGE
    assert callboard().exit_code == errors.USAGE


def test_every_reading_command_has_json_and_names_the_log(callboard: Callboard) -> None:
    for name in ("sessions", "show", "tree", "events", "replay", "request", "verify"):
        text = callboard(name, "--help").stdout
        assert "--json" in text, name
        assert "CALLBOARD_LOG" in text, name


def test_a_log_that_is_not_there_is_answered_with_those_that_are(callboard: Callboard, own_log: Path) -> None:
    done = callboard("sessions", "--log", str(own_log.with_name("none.db")))
    assert done.exit_code == errors.NOT_FOUND
    assert "own.db" in done.stderr
    assert callboard("sessions", "--log", str(own_log.parent)).exit_code == errors.NOT_FOUND


def test_a_file_that_is_no_log_is_refused(callboard: Callboard, tmp_path: Path) -> None:
    other = tmp_path / "notes.db"
    other.write_text("these are notes, and not a log " * 100)
    done = callboard("sessions", "--log", str(other))
    assert done.exit_code == errors.CORRUPT
    assert len(done.stderr.splitlines()) == 1


def test_an_unexpected_error_is_one_line_and_debug_shows_the_traceback(
    callboard: Callboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callboard.cli.sessions_command.open_reader", lambda _: 1 / 0)
    done = callboard("sessions")
    assert done.exit_code == errors.FAILED
    assert "unexpected ZeroDivisionError" in done.stderr
    assert "Traceback" not in done.stderr
    for arguments in (("--debug", "sessions"), ("sessions", "--debug")):
        assert "Traceback" in callboard(*arguments).stderr


def test_ctrl_c_while_looking_is_no_error(callboard: Callboard, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("callboard.cli.sessions_command.open_reader", interrupted)
    assert callboard("sessions").exit_code == errors.INTERRUPTED


@table(
    ("error", "code"),
    [
        ("SessionNotFound", 3),
        ("UnknownName", 3),
        ("UnknownModel", 2),
        ("MissingKey", 2),
        ("InvalidAgent", 2),
        ("StoreUnreadable", 4),
        ("CorruptLog", 4),
        ("Diverged", 5),
        ("StoreLocked", 1),
        ("StoreTooNew", 1),
        ("SessionFailed", 1),
    ],
)
def test_each_error_has_its_exit_code(error: str, code: int) -> None:
    raised = getattr(sys.modules["callboard.actors.protocol.errors"], error)("what happened\nand where")
    failure = errors.failure_of(raised)
    assert failure.exit_code == code
    assert failure.message.startswith("what happened")


def test_a_locked_log_says_what_to_do() -> None:
    from callboard.actors.protocol.errors import StoreLocked

    assert "--log" in errors.failure_of(StoreLocked("another process owns it")).message


@pytest.mark.slow
def test_as_a_process_it_ends_with_the_same_codes(recorded: Path, tmp_path: Path) -> None:
    where = {"CALLBOARD_LOG": str(recorded)}
    assert piped(tmp_path, "verify", "--all", **where).returncode == 0
    missing = piped(tmp_path, "show", "nonsense", **where)
    assert (missing.returncode, missing.stdout) == (3, "")
    assert len(missing.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_end_of_a_command_looks_for_no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_end: list[object] = []
    monkeypatch.setattr(atexit, "register", at_the_end.append)
    monkeypatch.setattr("sys.argv", ["callboard", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert at_the_end == [gc.freeze]


def test_a_reader_that_goes_away_is_no_error_to_talk_about(recorded: Path, tmp_path: Path) -> None:
    words, pipe = command("events", "20250101", "--step", "--json"), subprocess.PIPE
    variables = environment(CALLBOARD_LOG=str(recorded), PYTHONUNBUFFERED="1")
    with running(words, cwd=tmp_path, env=variables, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=ENDS_WITHIN_S) == errors.BROKEN_PIPE


@pytest.mark.slow
def test_a_narrow_encoding_is_no_reason_to_fail(recorded: Path, tmp_path: Path) -> None:
    done = piped(
        tmp_path, "tree", "20250101", CALLBOARD_LOG=str(recorded), PYTHONIOENCODING="ascii", LC_ALL="C"
    )
    assert done.returncode == 0
    assert "host.1 counter" in done.stdout


@pytest.mark.slow
def test_help_needs_neither_an_event_loop_nor_a_model(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom callboard.cli.main import cli\n"
        "try: cli(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'asyncio', 'rich', 'anthropic', 'pykka'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", ["show --state --at 3", "events --step --from 3 --to 3", "tree", "request 5", "why 4"]
)
def test_a_look_into_a_log_needs_neither_an_event_loop_nor_an_agent(recorded: Path, line: str) -> None:
    script = (
        "import sys\nfrom callboard.cli.main import cli\n"
        f"try: cli({line.split()!r})\nexcept SystemExit as end: assert not end.code, end.code\n"
        "print(sorted({'asyncio', 'callboard.runtime.agent'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(CALLBOARD_LOG=str(recorded)),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip().split("\n")[-1]) == (0, "[]"), done.stderr


def test_the_program_looks_for_garbage_from_the_moment_on_at_which_its_command_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr("callboard.cli.main.main", lambda: seen.append(gc.isenabled()))
    monkeypatch.setattr(gc, "freeze", lambda: seen.append(gc.isenabled()))
    try:
        program()
        assert cli.get_command(click.Context(cli), "nonsense") is None
        seen.append(gc.isenabled())
        assert cli.get_command(click.Context(cli), "sessions") is not None
        assert (seen, gc.isenabled()) == ([False] * 3, True)
    finally:
        gc.enable()
