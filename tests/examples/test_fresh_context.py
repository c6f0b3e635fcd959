"""A worker with a fresh context: the example on real folders, and each rule of its page."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from callboard import (
    Agent,
    Call,
    Files,
    ModelRequest,
    Outcome,
    Reply,
    Runtime,
    ScriptedModel,
    call,
    say,
    tool,
)
from callboard.replay import Recording
from callboard.tools.files import FILE_TOOLS
from tests.pages import ROOT, blocks

PAGE = ROOT / "docs" / "examples" / "fresh-context.md"


def says(folder: Path, *words: str) -> str:
    script = str(ROOT / "examples" / "fresh_context.py")
    done = subprocess.run(
        [sys.executable, script, *words], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_the_example_does_its_three_tasks_on_a_real_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    shutil.copytree(ROOT / "examples" / "delegation", tmp_path / "project")
    shown = next(block.text for block in blocks(PAGE.read_text()) if block.language == "text")
    assert says(tmp_path, "project").rstrip() == shown.rstrip()
    assert (tmp_path / "project" / "scratch" / "slug.py").is_file()
    Recording.open(tmp_path / "fresh_context.db").verify().check()


@pytest.mark.slow
def test_its_answers_are_true_of_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (tmp_path / "p").mkdir()
    assert "No test framework is imported." in says(tmp_path, "p", "Find the testing framework.")
    (tmp_path / "p" / "check.py").write_text('"""Checks sums."""\nimport unittest\n')
    assert "The tests use unittest" in says(tmp_path, "p", "Find the testing framework.")
    assert "check.py: Checks sums." in says(tmp_path, "p", "Summarise all .py files.")


# --- the rules ------------------------------------------------------------------------

Replies = Callable[[ModelRequest], Reply | Call]


def ran(
    worker: Agent, replies: Replies, files: Path | Files | None = None
) -> tuple[Outcome, list[ModelRequest]]:
    """Let a host delegate one task to a worker. Return the outcome, and the worker's requests."""
    seen: list[ModelRequest] = []

    def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "worker":
            seen.append(request)
            return replies(request)
        if request.turn == 1:
            return call("task", prompt="Do it.")
        return say(str(request.conversation[-1]["content"]))

    host = Agent("host", instructions="SECRET OF THE HOST", agents=[worker], tools=FILE_TOOLS)
    runtime = Runtime(":memory:", model=ScriptedModel(policy), files=files)
    return runtime.run_sync(host, "A long talk."), seen


def test_a_workers_history_is_its_instructions_and_the_prompt() -> None:
    worker = Agent("worker", description="Works.", instructions="Be brief.")
    _, (request,) = ran(worker, lambda request: say("Done."))
    assert bytes(request.system) == b'"Be brief."'
    assert [message["role"] for message in request.conversation] == ["user"]
    assert "Do it." in str(request.conversation)
    assert "talk" not in str(request.conversation) + str(request.system)


def test_only_its_last_text_returns() -> None:
    worker = Agent("worker", description="Works.", tools=FILE_TOOLS)

    def replies(request: ModelRequest) -> Reply | Call:
        return call("list_dir") if request.turn == 1 else say("The summary.")

    outcome, _ = ran(worker, replies, ROOT / "examples" / "delegation")
    assert "The summary." in outcome.text
    assert "review.py" not in outcome.text


def test_a_worker_that_says_nothing_has_failed_as_empty() -> None:
    outcome, _ = ran(Agent("worker", description="Works."), lambda request: say(""))
    assert "(empty)" in outcome.text


def test_the_host_and_its_worker_share_the_files(tmp_path: Path) -> None:
    worker = Agent("worker", description="Works.", tools=FILE_TOOLS)

    def policy(request: ModelRequest) -> Reply | Call:
        if request.profile == "worker":
            done = request.turn > 1
            return say("Written.") if done else call("write_file", path="note", content="from the worker")
        plays = {1: call("task", prompt="Do it."), 2: call("read_file", path="note")}
        return plays.get(request.turn) or say(str(request.conversation[-1]["content"]))

    host = Agent("host", agents=[worker], tools=FILE_TOOLS)
    files = Files(tmp_path, write=["."])
    assert (
        "from the worker"
        in Runtime(":memory:", model=ScriptedModel(policy), files=files).run_sync(host, "go").text
    )


def test_a_worker_has_no_task_tool_and_a_call_of_it_is_refused() -> None:
    def replies(request: ModelRequest) -> Reply | Call:
        return (
            call("task", prompt="You do it.")
            if request.turn == 1
            else say(str(request.conversation[-1]["content"]))
        )

    outcome, requests = ran(Agent("worker", description="Works."), replies)
    assert not any(b'"task"' in bytes(one) for one in requests[0].tools)
    assert [one.address for one in outcome.delegations] == ["host.1"]


def test_a_worker_ends_after_30_turns_with_its_last_text() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    outcome, requests = ran(Agent("worker", description="Works.", tools=[look]), lambda request: call("look"))
    assert len(requests) == 30
    assert [one.kind for one in outcome.delegations] == ["iteration_cap"]


def test_the_result_of_a_tool_is_cut_at_50_000_characters() -> None:
    @tool(effect="read")
    def flood() -> str:
        """Say much."""
        return "x" * 60_000

    def replies(request: ModelRequest) -> Reply | Call:
        return call("flood") if request.turn == 1 else say("done")

    _, requests = ran(Agent("worker", description="Works.", tools=[flood]), replies)
    result = str(requests[1].conversation[-1]["content"])
    assert result.count("x") <= 50_000
    assert "of 60,000 characters" in result
