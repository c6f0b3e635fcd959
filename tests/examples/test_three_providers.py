"""The example of three providers, with their servers on loopback."""

import contextlib
import io
import runpy
from pathlib import Path

import pytest

from callboard.replay import Recording
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


def run(folder: Path) -> list[str]:
    """Run the example in this process, which may have loaded the SDKs already. Return its lines."""
    shown = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(shown):
        runpy.run_path(str(ROOT / "examples" / "three_providers.py"), run_name="__main__")
    return shown.getvalue().splitlines()


def test_three_providers_answer_behind_one_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    scholar, neighbour = Reply(("No, a mammal.",)), Reply(("Looks like one.",))
    last = Reply(("The scholar is right.",))
    with (
        MessagesApi(claude()) as anthropic,
        OpenAIApi([scholar, last]) as openai,
        OpenAIApi([neighbour]) as ollama,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{openai.url}/v1")
        monkeypatch.setenv("OLLAMA_BASE_URL", f"{ollama.url}/v1")
        lines = run(tmp_path)
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
    Recording.open(tmp_path / "providers.db").verify().check()
