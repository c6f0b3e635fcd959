"""Processes that die in a run of a brain: one for each framework and point, forked from one that has both.

`python -m tests.runtime.brains.victims FOLDER` leaves a log and a list of the deeds of each.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from callboard.actors.protocol.request import ModelRequest
from callboard.brains import langgraph_agent, pydantic_ai_agent
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.runtime import Runtime
from tests.runtime.brains import agents, graphs
from tests.runtime.brains.agents import turns_in

FRAMEWORKS: Final = ("langgraph", "pydantic-ai")
POINTS: Final = ("model 0", "model 1", "save k", "check")
"""What a process does when it dies: a call of the model, the `write`, or its own check of an answer."""


class Notes(list[str]):
    """The deeds, in a file too. dies: the place in which the process dies."""

    def __init__(self, path: Path, dies: str = "") -> None:
        super().__init__()
        self._path = path
        self._dies = dies

    def append(self, what: str) -> None:
        """Note it, and die of it."""
        what = "check" if what == "validate" else what.removesuffix(" None")
        with self._path.open("a") as file:
            file.write(what + "\n")
        super().append(what)
        if what == self._dies:
            os.kill(os.getpid(), signal.SIGKILL)


def brain_of(framework: str, notes: Notes) -> Any:
    """Make the brain of a framework, whose tools and checks are noted."""
    effects: Any = {"add": "read"}
    if framework == "langgraph":
        return langgraph_agent(graphs.expert(notes), effects=effects)
    return pydantic_ai_agent(agents.expert(notes), effects=effects)


def model_of(framework: str, notes: Notes) -> ScriptedModel:
    """Make the model, whose calls are noted."""
    policy: Callable[[ModelRequest], Any] = graphs.policy if framework == "langgraph" else agents.policy

    def answers(request: ModelRequest) -> Any:
        notes.append(f"model {turns_in(request)}")
        return policy(request)

    return ScriptedModel(answers)


def paths(folder: Path, framework: str, point: str) -> tuple[Path, Path]:
    """Return the log and the notes of a victim."""
    name = f"{framework} {point}".replace(" ", "-")
    return folder / f"{name}.db", folder / f"{name}.txt"


def main(folder: Path) -> None:
    """Let each victim die, one after the other."""
    for framework in FRAMEWORKS:
        for point in POINTS:
            if (child := os.fork()) == 0:
                log, path = paths(folder, framework, point)
                notes = Notes(path, point)
                runtime = Runtime(log, model=model_of(framework, notes), strict_spending=True)
                runtime.run_sync(brain_of(framework, notes), "2+3?", session_id="s")
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, f"{framework} did not die in {point}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
