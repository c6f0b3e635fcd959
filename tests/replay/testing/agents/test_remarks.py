"""Read tools that write: found at their first call, in every order, if the scenario watches them."""

from pathlib import Path
from typing import Any

import pytest

from callboard import Agent, Call, Files, ToolContext, call, say, tool
from callboard.errors import MisuseError
from callboard.replay.testing.agents.remarks import RULE
from callboard.testing import BrokenRules, Scenario, explore, simulate

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


KID = Agent("kid", description="Works.")


def asking(made: Call) -> Any:
    def policy(request: Any) -> Any:
        return made if (request.profile, request.turn) == ("host", 1) else say("done")

    return policy


def test_a_task_in_the_background_of_an_agent_without_one_is_told_in_the_report() -> None:
    made = call("task", agent="kid", prompt="x", background=True)
    told = str(Scenario(Agent("host", agents=[KID]), asking(made)).explore(runs=3))
    assert "refused to host: Not delegated: you cannot run tasks in the background" in told
    fine = str(Scenario(Agent("host", agents=[KID], background=True), asking(made)).explore(runs=3))
    assert "refused" not in fine


def test_an_unknown_argument_is_told_once() -> None:
    scenario = Scenario(
        Agent("host", agents=[KID]), asking(call("task", prompt="x", schema={})), faults="all"
    )
    assert scenario.remarks == [
        "refused to host: Not delegated: task has no argument 'schema' (use output_schema). Its arguments: "
        "agent, prompt, output_schema, agents, copies, description."
    ]


def test_a_session_that_does_not_end_has_its_remarks_so_far() -> None:
    made = call("task", prompt="x", background=True)
    scenario = Scenario(Agent("host", agents=[KID]), lambda request: made)
    assert len(scenario.remarks) == 1
