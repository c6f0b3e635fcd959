"""The example of three providers, with their servers on loopback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from callboard import Recording
from tests.messages_api import Canned, MessagesApi, error_answer, message, sse_answer, tool_use
from tests.openai_api import OpenAIApi, Reply
from tests.pages import ROOT

pytestmark = pytest.mark.slow

ASKED = [("scholar", "toolu_1"), ("neighbour", "toolu_2")]


def claude() -> list[Canned]:
    """Return the answers of the host's first model: two delegations, then it is busy."""
    calls = [tool_use("task", {"agent": name, "prompt": "Is a whale a fish?"}, id) for name, id in ASKED]
    return [
        sse_answer(message(*calls, stop_reason="tool_use")),
        error_answer(529, "overloaded_error", "Overloaded."),
    ]


def run(folder: Path, **addresses: str) -> list[str]:
    """Run the example against these addresses. Return the lines that it prints."""
    keys = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "OPENAI_API_KEY": "sk-test-0123456789"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "three_providers.py")],
        cwd=folder,
        env={**os.environ, **keys, **addresses},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_three_providers_answer_behind_one_host(tmp_path: Path) -> None:
    scholar, neighbour = Reply(("No, a mammal.",)), Reply(("Looks like one.",))
    last = Reply(("The scholar is right.",))
    with (
        MessagesApi(claude()) as anthropic,
        OpenAIApi([scholar, last]) as openai,
        OpenAIApi([neighbour]) as ollama,
    ):
        lines = run(
            tmp_path,
            ANTHROPIC_BASE_URL=anthropic.url,
            OPENAI_BASE_URL=f"{openai.url}/v1",
            OLLAMA_BASE_URL=f"{ollama.url}/v1",
        )
        paths = [seen.path.partition("?")[0] for api in (anthropic, openai, ollama) for seen in api.seen]
        taken_over = openai.seen[-1].body
    assert sorted(lines[:2]) == ["neighbour: Looks like one.", "scholar: No, a mammal."]  # who was first
    assert lines[2] == "The scholar is right."
    assert lines[3].startswith("5 model calls, ")
    assert paths == ["/v1/messages"] * 2 + ["/v1/responses"] * 2 + ["/v1/chat/completions"]
    # The calls of Claude and their results go on at OpenAI.
    kinds = [item.get("type", "message") for item in taken_over["input"]]  # type: ignore[attr-defined]  # checked JSON
    assert kinds == [
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    Recording.open(tmp_path / "providers.db").verify().raise_if_diverged()
