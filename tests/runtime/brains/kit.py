"""The parts that the tests of all frameworks share: answers of a model, and one expert of each framework.

An expert has the tools `add`, which reads, and `save`, which writes, and perhaps a check of its answer. It
notes its deeds in a list. A framework is imported when its expert is made.
"""

import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime

EFFECTS: Final[Any] = {"add": "read"}
WORDS: Final = "Be terse."


def run(brain: Any, answers: Any = (), prompt: Any = "2+3?", **more: Any) -> Any:
    """Run a brain as a host, and return its outcome. answers: of its model; by default it is not asked."""
    given = {key: more.pop(key) for key in ("deps", "approve") if key in more}
    runtime = Runtime(more.pop("log", ":memory:"), model=ScriptedModel(answers), **given)
    return runtime.run_sync(brain, prompt, session_id="s", **more)


def turns_in(request: ModelRequest) -> int:
    """Return the replies in a request."""
    return sum(said["role"] == "assistant" for said in request.conversation)


def saying(*texts: str) -> Any:
    """Return a policy that says one text after the other."""
    return lambda request: say(texts[min(turns_in(request), len(texts) - 1)])


def results(request: ModelRequest) -> list[tuple[str, bool]]:
    """Return the results in the last message: the content, and whether it is an error."""
    return [(one["content"], one.get("is_error", False)) for one in request.conversation[-1]["content"]]


class Framework(NamedTuple):
    """The expert of a framework.

    make: of a list of notes, its words, and options of its brain. answers: of its model. end: the kind and
    the text of its run. points: what it does, by its notes. modules: to do without. changed: the words of a
    divergence after other words. fakes: of its tools, where a simulation needs some. prefix: of their names,
    for the model. is_forgetful: it does not hear of earlier asks.
    """

    name: str
    make: Callable[..., Any]
    answers: tuple[Any, ...]
    end: tuple[str, str]
    points: tuple[str, ...]
    modules: tuple[str, ...]
    changed: str = r'"Be terse\."'
    fakes: Mapping[str, Callable[..., object]] = {}
    prefix: str = ""
    is_forgetful: bool = False

    def policy(self, request: ModelRequest) -> Any:
        """Answer as the model of the expert."""
        return self.answers[turns_in(request)]

    def brain(self, notes: list[str] | None = None, words: str = WORDS, **more: Any) -> Any:
        """Make the expert."""
        return self.make([] if notes is None else notes, words, **more)


def _pydantic(notes: list[str], words: str, **more: Any) -> Any:
    from callboard.brains import pydantic_ai_agent

    agents = import_module("tests.runtime.brains.agents")
    return pydantic_ai_agent(agents.expert(notes, words), effects=EFFECTS, **more)


def _langgraph(notes: list[str], words: str, **more: Any) -> Any:
    from callboard.brains import langgraph_agent

    graphs = import_module("tests.runtime.brains.graphs")
    return langgraph_agent(graphs.expert(notes, words), description="Knows.", effects=EFFECTS, **more)


def _openai(notes: list[str], words: str, **more: Any) -> Any:
    """Make an agent that hands off to the expert."""
    from callboard.brains import openai_agent

    cases = import_module("tests.runtime.brains.openai_cases")
    return openai_agent(cases.desk(notes, words), "expert", description="Knows.", effects=EFFECTS, **more)


def _claude(notes: list[str], words: str, **more: Any) -> Any:
    cases = import_module("tests.runtime.brains.claude_cases")
    return cases.brain(notes.append, words, **more)


_CALLS = calls(call("add", a=2, b=3), call("save", key="k"), call("add", a=8, b=1))
_TYPED = ("reported", '{"good":true,"why":"5"}')
_LONG = "a much too long reason"
_TOOLS = ("add 2", "save k")

_ALL: Final = (
    Framework(
        "pydantic-ai",
        _pydantic,
        (_CALLS, call("final_result", good=True, why=_LONG), call("final_result", good=True, why="5")),
        _TYPED,
        ("model 0", "model 1", "model 2", *_TOOLS, "check"),
        ("pydantic_ai", "pydantic"),
    ),
    Framework(
        "langgraph",
        _langgraph,
        (_CALLS, say(_LONG), say("5")),
        ("answered", "5"),
        ("model 0", "model 1", "model 2", *_TOOLS, "check"),
        ("langgraph", "langchain", "langchain_core", "greenlet"),
    ),
    Framework(
        "openai",
        _openai,
        (call("transfer_to_expert"), _CALLS, call("final_output", good=True, why="5")),
        _TYPED,
        ("model 0", "model 1", "model 2", *_TOOLS),
        ("agents", "openai"),
    ),
    Framework(
        "claude",
        _claude,
        (
            calls(call("mcp__cb__add", a=2, b=3), call("mcp__cb__save", key="k")),
            call("mcp__cb__add", a=8, b=1),
            say("5"),
        ),
        ("answered", "5"),
        ("model 0", "model 2", "save k"),
        ("claude_agent_sdk", "mcp"),
        "with another system prompt",
        {"add": lambda a, b: str(a + b), "save": lambda key: f"saved {key}"},
        "mcp__cb__",
        is_forgetful=True,
    ),
)
FRAMEWORKS: Final = {one.name: one for one in _ALL}

HAS_CLIENT: Final = sys.platform == "linux" and find_spec("claude_agent_sdk") is not None
NO_CLIENT: Final = pytest.mark.skipif(
    not HAS_CLIENT, reason="the client of callboard[claude] is not installed, or not on this system"
)
PARAMS: Final = [pytest.param(name, marks=NO_CLIENT if name == "claude" else ()) for name in FRAMEWORKS]
"""The frameworks, of which one is not in the development environment."""


def clients(folder: Path) -> list[int]:
    """Return the processes of Claude clients whose configuration is in a folder, by their environment."""
    mine = f"CLAUDE_CONFIG_DIR={folder}/callboard-claude-".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mine in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # of another user, or gone
            continue
    return found


def wait_for_no_clients(folder: Path) -> None:
    """Wait until such processes have ended. Raises AssertionError."""
    for _ in range(40):
        if not clients(folder):
            return
        time.sleep(0.05)
    raise AssertionError(f"clients live on: {clients(folder)}")
