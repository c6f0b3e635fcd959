"""`--files` of run, chat and resume: the files of a session, given on the command line."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callboard import Budget, Files, Runtime
from callboard.actors.protocol.client_messages import Resumed, SessionOpened
from callboard.actors.protocol.file_area import FileArea
from callboard.actors.protocol.limits import TABLE, Limits
from callboard.cli.errors import USAGE, Failure
from callboard.cli.loading import load_agent
from callboard.cli.options import parse_budgets, parse_limits
from callboard.replay import Recording
from tests.cli.conftest import Callboard
from tests.tables import table

CODER = """
from callboard import Agent, ScriptedModel, call, calls, say
from callboard.tools.files import FILE_TOOLS

def told(request):
    if request.turn > 1:
        return say(bytes(request.messages[-1]).decode())
    return calls(call("read_file", path="docs/a"), call("write_file", path="docs/b", content="new"))

host = Agent("host", tools=FILE_TOOLS, model=ScriptedModel(told))
"""


@pytest.fixture
def run(callboard: Callboard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callboard]:
    """Run a command on a module whose agent reads and writes files, in a log of its own."""
    (tmp_path / "coder.py").write_text(CODER)
    (tmp_path / "root/docs").mkdir(parents=True)
    (tmp_path / "root/docs/a").write_text("old words")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("CALLBOARD_LOG", str(tmp_path / "own.db"))
    yield callboard
    sys.modules.pop("coder", None)


def area(log: Path) -> FileArea | None:
    """Return the files of the newest session as the log has them."""
    with Recording.open(log) as recording:
        bodies = [event.body for event in recording.events]
    found = [body.files for body in bodies if isinstance(body, SessionOpened | Resumed) and body.files]
    return found[-1] if found else None


def test_a_run_reads_and_writes_the_folder_that_is_named(run: Callboard, tmp_path: Path) -> None:
    options = ["--files", "root", "--files-write", "docs", "--files-label", "untrusted"]
    done = run("run", "coder:host", "Go.", "--quiet", *options)
    assert done.exit_code == 0, done.output
    assert "old words" in done.output
    assert (tmp_path / "root/docs/b").read_text() == "new"
    assert area(tmp_path / "own.db") == FileArea("files", (".",), ("docs",), ("untrusted",))


def test_a_folder_is_read_only_unless_it_is_stated(run: Callboard, tmp_path: Path) -> None:
    assert (
        run("run", "coder:host", "Go.", "--quiet", "--files", "root", "--files-read", "docs").exit_code == 0
    )
    assert not (tmp_path / "root/docs/b").exists()
    assert area(tmp_path / "own.db") == FileArea("files", ("docs",), ())


def test_a_chat_has_the_same_options(run: Callboard, tmp_path: Path) -> None:
    done = run("chat", "coder:host", "--files", "root", "--files-write", ".", text="Go.\n")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "root/docs/b").read_text() == "new"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--files-write", "docs"], "need --files FOLDER"),
        (["--files-label", "x"], "need --files FOLDER"),
        (["--files", "missing"], "cannot be opened"),
        (["--files", "root", "--files-read", "../x"], "not a path below the root"),
        (["--files", "root", "--files-label", " "], "labels"),
    ],
)
def test_options_that_cannot_work_are_refused(run: Callboard, options: list[str], said: str) -> None:
    done = run("run", "coder:host", "Go.", *options)
    assert done.exit_code == 2
    assert said in done.output


def test_a_resume_takes_the_files_and_without_them_says_which_option_to_give(
    run: Callboard, tmp_path: Path
) -> None:
    async def begin() -> str:
        async with Runtime(tmp_path / "own.db", files=Files("root", write=["docs"])) as runtime:
            session = await runtime.open(load_agent("coder:host"))
            await session.ask("Go.")
            return session.id

    asyncio.run(begin())
    missing = run("resume", "coder:host")
    assert missing.exit_code != 0
    assert "callboard resume --files FOLDER" in missing.output
    done = run("resume", "coder:host", "--files", "root", "--files-write", ".")
    assert done.exit_code == 0, done.output
    assert area(tmp_path / "own.db") == FileArea("files", (".",), (".",))


def refusal(read: Callable[[list[str]], object], pairs: list[str]) -> str:
    """Return the message of the refusal of some pairs."""
    with pytest.raises(Failure) as caught:
        read(pairs)
    assert caught.value.exit_code == USAGE
    return caught.value.message


def test_limits_are_written_by_name() -> None:
    assert parse_limits(["tokens=200_000", "cost_usd=0.5", "max_depth=2"]) == Limits(
        tokens=200_000, cost_usd=0.5, max_depth=2
    )
    assert parse_limits([]) == Limits()


def test_whole_numbers_may_be_written_in_thousands_and_millions() -> None:
    assert parse_limits(["tokens=200k"]).tokens == 200_000
    assert parse_limits(["tokens=2M"]).tokens == 2_000_000


def test_an_unknown_limit_is_answered_with_the_names_there_are() -> None:
    told = refusal(parse_limits, ["token=3"])
    assert told == f"--limit 'token=3': write NAME=VALUE; names: {', '.join(TABLE)}"


@table(
    ("pair", "advice"),
    [
        ("tokens=many", "the value must be a whole number"),
        ("tokens=1.5", "the value must be a whole number"),
        ("tokens=", "the value must be a whole number"),
        ("deadline_s=soon", "the value must be a number"),
        ("deadline_s=5k", "the value must be a number"),
        ("tokens", "write NAME=VALUE"),
    ],
)
def test_a_limit_that_is_no_number_is_refused_by_name(pair: str, advice: str) -> None:
    assert refusal(parse_limits, [pair]).startswith(f"--limit {pair!r}: {advice}")


@pytest.mark.parametrize("pair", ["max_depth=-1", "deadline_s=nan", "deadline_s=0"])
def test_a_limit_out_of_bounds_is_refused_with_the_bounds(pair: str) -> None:
    told = refusal(parse_limits, [pair])
    assert f"Limits.{pair.split('=')[0]} must be" in told


def test_budgets_are_written_by_pattern() -> None:
    stated = ["tenant:*=20usd/day", "*=5_000_000tokens", "*=0.5 USD", "a=b=2m tokens/month"]
    assert parse_budgets(stated) == {
        "tenant:*": Budget(cost_usd=20, per="day"),
        "*": Budget(tokens=5_000_000, cost_usd=0.5),
        "a=b": Budget(tokens=2_000_000, per="month"),
    }
    assert parse_budgets([]) is None


@table(
    ("pairs", "advice"),
    [
        (["20usd"], "--budget '20usd': write PATTERN=AMOUNT"),
        (["*=20"], "--budget '*=20': write PATTERN=AMOUNT"),
        (["*=20usd/week"], "--budget '*=20usd/week': write PATTERN=AMOUNT"),
        (["*=-1usd"], "--budget '*=-1usd': write PATTERN=AMOUNT"),
        (["*=1.5tokens"], "--budget '*=1.5tokens': the value must be a whole number"),
        (["*=1kusd"], "--budget '*=1kusd': the value must be a number"),
        (["*=0usd"], "--budget: Budget: cost_usd=0.0; give a number of US dollars above 0"),
        (["ten*=1usd"], "--budget: budgets has the pattern 'ten*'; use a tag"),
        (["*=1usd", "*=2usd"], "--budget '*=2usd': '*' has a budget in this unit already"),
        (["*=1usd", "*=2tokens/day"], "--budget '*=2tokens/day': the budgets of '*' have different periods"),
    ],
)
def test_a_budget_that_cannot_be_read_is_refused(pairs: list[str], advice: str) -> None:
    assert refusal(parse_budgets, pairs).startswith(advice)
