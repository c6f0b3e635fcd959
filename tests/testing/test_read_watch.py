"""Read tools that write: found at their first call, in every order, if the scenario watches them."""

from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Files, ToolContext, call, say, tool
from callboard.errors import MisuseError
from callboard.testing import BrokenRules, explore, simulate
from callboard.testing.read_watch import RULE

COUNTED: list[str] = []


@tool(effect="read")
def count(what: str) -> int:
    """Count the calls."""
    COUNTED.append(what)
    return len(COUNTED)


@tool(effect="read")
def words(path: str, ctx: ToolContext) -> int:
    """Count words, and remember how many."""
    found = len(ctx.files.read_text(path).split())
    ctx.files.write_text(f"notes/{path}", str(found))
    return found


@tool(effect="read")
def size(path: str, ctx: ToolContext) -> int:
    """Count characters."""
    return len(ctx.files.read_text(path))


@tool(effect="write")
def book(place: str) -> str:
    """Book."""
    return "booked"


def calling(name: str, **arguments: object) -> Any:
    return lambda request: call(name, **arguments) if request.turn == 1 else say("done")


@pytest.fixture
def files(tmp_path: Path) -> Files:
    (tmp_path / "a.txt").write_text("one two")
    return Files(tmp_path, write=["notes"])


def test_a_read_tool_whose_second_call_differs_is_found_in_the_first_run() -> None:
    host = Agent("host", tools=[count])
    with pytest.raises(BrokenRules) as caught:
        explore(host, calling("count", what="x"), setup=COUNTED.clear, reads_twice=True, runs=1)
    assert f'{RULE} (count, called twice: ok "1", then ok "2")' in str(caught.value)
    assert caught.value.report.explored.unstable is None


def test_it_goes_unnoticed_without_the_option_and_with_a_fake() -> None:
    host = Agent("host", tools=[count])
    explore(host, calling("count", what="x"), setup=COUNTED.clear, runs=20)
    explore(host, calling("count", what="x"), tools={"count": lambda what: 1}, reads_twice=True, runs=20)


def test_a_tool_that_reads_only_may_be_called_twice(files: Files) -> None:
    host = Agent("host", tools=[size, book])
    explore(host, calling("size", path="a.txt"), files=files, reads_twice=True, faults="all", runs=50)
    explore(host, calling("book", place="here"), files=files, reads_twice=True, runs=5)


def test_a_read_tool_that_writes_a_file_is_found_and_writes_none(files: Files) -> None:
    host = Agent("host", tools=[words])
    run = simulate(host, calling("words", path="a.txt"), files=files)
    assert [(one.rule, one.place) for one in run.violations] == [
        (RULE, "words writes the file 'notes/a.txt'"),
    ]
    assert run.outcome.text == "done"
    assert not (files.root / "notes").exists()
    with pytest.raises(BrokenRules, match="words writes the file"):
        explore(host, calling("words", path="a.txt"), files=files, runs=3)


def test_a_file_that_may_not_be_written_is_refused_as_live(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one two")
    run = simulate(Agent("host", tools=[words]), calling("words", path="a.txt"), files=Files(tmp_path))
    assert run.violations == ()


def test_setup_is_called_before_each_run_and_must_be_a_function_that_does_not_wait() -> None:
    calls: list[int] = []
    host = Agent("host")
    found = explore(host, lambda request: say("done"), setup=lambda: calls.append(1), runs=3)
    assert len(calls) >= found.explored.figures.runs
    with pytest.raises(MisuseError, match="setup=3: give a function"):
        explore(host, lambda request: say("done"), setup=3)  # type: ignore[arg-type]  # the subject of this test
