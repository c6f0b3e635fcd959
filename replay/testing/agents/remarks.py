"""Looks at the tools of a simulated session.

The watch over tools with `effect="read"`, which run for real in a simulation.

A runtime may run such a tool again after a crash, and in a fork, and asks no person about it: so it must
write nothing. Two ways of finding one that does, neither of which needs a certain order:

    files        of the session: a write by `ctx.files` is noted, and not done
    reads_twice  each call runs the function twice, and both results must be equal

With either of them, a file that the function writes or removes by itself is noted, too; that is done.

Remarks on a scenario: calls that callboard's own tools refuse, which break no rule.

A model may do anything, so a refused call is not a bug of a session. In a policy it is nearly always a
mistake of its author, because the run then tests something other than it seems to.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from callboard.actors.protocol import prompts
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.file_labels import FileLabels
from callboard.replay.testing.agents.seen_writes import watched_writes
from callboard.replay.testing.sessions.faults import NO_FAULTS
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.scripted_replies import Reply
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation
from callboard.runtime.files.call_files import CallFiles
from callboard.runtime.files.files import Files
from callboard.runtime.tools.access import Access
from callboard.runtime.tools.output import ToolOutcome
from callboard.runtime.tools.tool import Tool

RULE: Final = 'A tool with effect="read" writes nothing.'
_SHOWN_CHARS: Final = 60


@dataclass
class ReadWatch:
    """The findings of one run, each in words. files: of the session, None for none."""

    files: Files | None = None
    reads_twice: bool = False
    found: list[str] = field(default_factory=list)

    @property
    def is_on(self) -> bool:
        """Return whether there is anything to watch."""
        return self.files is not None or self.reads_twice

    def files_for(self, tool: str, access: Access) -> Files | None:
        """Return the files for a call of a tool."""
        return None if self.files is None else _WatchedFiles(self, tool, self.files, access)

    @contextmanager
    def writes_of(self, tool: Tool, fake: object) -> Iterator[None]:
        """Note the files that a read tool writes or removes by itself in the block. fake: in its place."""
        if not self.is_on or fake is not None or tool.effect != "read":
            yield
            return
        with watched_writes() as writes:
            yield
        self.found += [f"{tool.name} {what}" for what in writes.found()]

    def compare(self, tool: str, first: ToolOutcome, second: ToolOutcome) -> None:
        """Note two calls of one tool with the same arguments that differ."""
        if (first.status, first.output) != (second.status, second.output):
            told = f"{_shown(first)}, then {_shown(second)}"
            self.found.append(f"{tool}, called twice: {told}")


class _WatchedFiles(CallFiles):
    """The files of one call of a read tool."""

    def __init__(self, watch: ReadWatch, tool: str, whole: Files, access: Access) -> None:
        super().__init__(whole, access, FileLabels())
        self._watch, self._tool = watch, tool

    def write_bytes(self, path: str, data: bytes) -> None:
        """Note the write. Raises FileError as a live one does."""
        self.check_write(path)
        self._watch.found.append(f"{self._tool} writes the file {path!r:.80}")


class ReadsOnly:
    """The rule."""

    def __init__(self, watch: ReadWatch) -> None:
        self._watch = watch

    def begin(self, steps: int) -> None:
        """Do nothing: the world has begun with an empty watch."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Return the violation if the watch has found something."""
        found = self._watch.found
        return Violation(RULE, at, found[0]) if found else None

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Ignore the end: no tool has run since the last step."""
        return None


def _shown(outcome: ToolOutcome) -> str:
    return f"{outcome.status} {bytes(outcome.output).decode():.{_SHOWN_CHARS}}"


_REFUSALS: Final = (
    prompts.NOT_DELEGATED,
    prompts.WRONG_NAMES,
    prompts.UNUSABLE_TASK_WAIT,
    prompts.UNUSABLE_TASK_CANCEL,
)
_CALL_CHARS: Final = 200
_STEPS: Final = 5_000


def remarks_on(scenario: Scenario) -> list[str]:
    """Make one run without faults, and return a line for each refusal, once for each agent."""
    found: dict[str, None] = {}

    def policy(request: ModelRequest) -> Reply:
        for text in _results(request):
            if text.startswith(_REFUSALS):
                found[f"refused to {request.profile}: {text:.{_CALL_CHARS}}"] = None
        return scenario.policy(request)

    with suppress(AssertionError):  # without an end, which the campaign tells
        SessionWorld(replace(scenario, policy=policy, faults=NO_FAULTS)).run(steps=_STEPS)
    return list(found)


def _results(request: ModelRequest) -> Iterator[str]:
    """Yield the texts of the results in the last message of a request."""
    content = msgspec.json.decode(request.message(request.length - 1)).get("content")
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result" and isinstance(block.get("content"), str):
            yield block["content"]
