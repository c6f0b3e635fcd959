"""Processes that die in a run of a brain: one for each framework and point, forked from one with them all.

`python -m tests.runtime.brains.victims FOLDER` leaves a log and a list of the deeds of each.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import ScriptedModel
from callboard.runtime.runtime import Runtime
from tests.runtime.brains.kit import FRAMEWORKS, HAS_CLIENT, Framework, turns_in


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


def model_of(framework: Framework, notes: Notes) -> ScriptedModel:
    """Make the model, whose calls are noted."""

    def answers(request: ModelRequest) -> Any:
        notes.append(f"model {turns_in(request)}")
        return framework.policy(request)

    return ScriptedModel(answers)


def paths(folder: Path, framework: str, point: str) -> tuple[Path, Path]:
    """Return the log and the notes of a victim."""
    name = f"{framework} {point}".replace(" ", "-")
    return folder / f"{name}.db", folder / f"{name}.txt"


def main(folder: Path) -> None:
    """Let each victim die, one after the other."""
    for name, framework in FRAMEWORKS.items():
        if name == "claude" and not HAS_CLIENT:
            continue
        framework.brain()  # imports
        for point in framework.points:
            if (child := os.fork()) == 0:
                log, path = paths(folder, name, point)
                notes = Notes(path, point)
                runtime = Runtime(log, model=model_of(framework, notes), strict_spending=True)
                runtime.run_sync(framework.brain(notes), "2+3?", session_id="s")
                os._exit(0)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL, f"{name} did not die in {point}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
