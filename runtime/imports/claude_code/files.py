"""The files of Claude Code sessions.

PROJECT/SESSION.jsonl                          the main conversation
PROJECT/SESSION/subagents/agent-ID.jsonl       a sub-agent's; agent-ID.meta.json beside it names its call
PROJECT/agent-ID.jsonl                         a sub-agent's, before version 2.1
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from callboard.runtime.imports.claude_code.lines import Line, blocks_of, line_of, time_of

_SUB: Final = "agent-"
_BELOW: Final = "subagents"
_LOOK_LINES: Final = 20


class SessionFiles(NamedTuple):
    """The files of one session. session: its id. main: of a sub-agent without its session, its own file.

    agents: the files of sub-agents, by their ids.
    """

    session: str
    main: Path
    agents: dict[str, Path]


def sessions_in(paths: Iterable[Path]) -> list[SessionFiles]:
    """Return the sessions of files and folders, in the order of their names. A folder has all below it."""
    found: dict[Path, None] = {}
    for path in paths:
        found.update(dict.fromkeys(sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]))
    mains = [path for path in found if not is_agent_file(path) and _BELOW not in path.parent.parts]
    sessions = [files_of(path) for path in mains]
    tied = {agent for one in sessions for agent in one.agents.values()}
    alone = [path for path in found if is_agent_file(path) and path not in tied]
    return [*sessions, *(SessionFiles(_session_in(path), path, {}) for path in alone)]


def is_agent_file(path: Path) -> bool:
    """Return True for the file of a sub-agent, by its name."""
    return path.name.startswith(_SUB)


def files_of(main: Path) -> SessionFiles:
    """Return the files of a session. main: that of its main conversation."""
    agents = {path.stem.removeprefix(_SUB): path for path in _sub_files(main)}
    return SessionFiles(main.stem, main, agents)


def _sub_files(main: Path) -> Iterator[Path]:
    below = main.with_suffix("")
    if below.is_dir():
        yield from sorted(below.rglob(f"{_SUB}*.jsonl"))
    for path in sorted(main.parent.glob(f"{_SUB}*.jsonl")):
        if _session_in(path) == main.stem:
            yield path


def _session_in(path: Path) -> str:
    """Return the session that a file of a sub-agent says it belongs to; its own name without one."""
    for line in _first_lines(path):
        if isinstance(line.sessionId, str) and line.sessionId:
            return line.sessionId
    return path.stem


def _first_lines(path: Path) -> list[Line]:
    with path.open("rb") as file:
        read = (line_of(data) for data, _ in zip(file, range(_LOOK_LINES), strict=False))
        return [line for line in read if line is not None]


def call_beside(path: Path) -> object:
    """Return the call of a sub-agent, as the file beside its transcript says; None without one."""
    beside = path.with_suffix(".meta.json")
    try:
        return msgspec.json.decode(beside.read_bytes(), type=dict[str, object]).get("toolUseId")
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class LineFile:
    """The lines of a file that may grow. A line is read once its end is there, or at `last`.

    unread: the number of lines that are not JSON objects.
    """

    def __init__(self, path: Path, agent: str = "") -> None:
        self.path, self.agent = path, agent
        self.unread = 0
        self._offset = 0
        self._at = 0

    def lines(self, *, last: bool = True) -> Iterator[tuple[int, Line]]:
        """Yield the lines since the last time, each with its time. last: also one without its end."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            for data in file:
                if not data.endswith(b"\n") and not last:
                    return
                self._offset += len(data)
                line = line_of(data)
                if line is None:
                    self.unread += bool(data.strip())
                    continue
                self._at = max(self._at, time_of(line))
                yield self._at, line


_END: Final[tuple[int, Line | None]] = (0, None)


def merged(
    files: Sequence[LineFile], calls: Mapping[str, str], *, last: bool = True
) -> Iterator[tuple[Line, str]]:
    """Yield the new lines of files, each with the sub-agent of its file, in the order of their times.

    calls: the call that began each sub-agent. The lines of a sub-agent come before the result of its call,
    even if the clocks differ.
    """
    heads = {one.agent: Head(one, last) for one in files}
    agents = {call: agent for agent, call in calls.items() if agent in heads}
    while ready := [one for one in heads.values() if one.line is not None]:
        yield from _next(min(ready, key=lambda one: one.at), heads, agents)


def _next(head: "Head", heads: Mapping[str, "Head"], agents: dict[str, str]) -> Iterator[tuple[Line, str]]:
    """Yield the next line of a file, behind all lines that lead to it."""
    line = head.line
    assert line is not None
    for block in blocks_of(line) if line.type != "assistant" else ():
        agent = agents.pop(str(block.get("tool_use_id")), None)
        while agent is not None and heads[agent] is not head and heads[agent].line is not None:
            yield from _next(heads[agent], heads, agents)
    head.move()
    yield line, head.agent


class Head:
    """The next line of a file, None at its end. at: its time."""

    def __init__(self, file: LineFile, last: bool) -> None:
        self.agent = file.agent
        self._lines = file.lines(last=last)
        self.at, self.line = next(self._lines, _END)

    def move(self) -> None:
        """Go to the next line."""
        self.at, self.line = next(self._lines, _END)
