"""Transcripts of Claude Code for tests: lines of the real shape, with the fields that it writes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from callboard.replay import Recording
from callboard.replay.testing.rules.invariants import LogChecker
from callboard.replay.testing.rules.requests import check_requests
from callboard.runtime.imports.claude_code.files import sessions_in
from callboard.runtime.imports.claude_code.importing import Imported, SessionImport
from callboard.runtime.log.opening import log_of
from callboard.runtime.secrets.registry import Secrets

Line = dict[str, Any]
T = TypeVar("T")


class Writer:
    """Writes the lines of one conversation. Each has an id, a parent and a second of its own."""

    def __init__(self, session: str = "s1", agent: str = "", start: int = 0) -> None:
        self.session, self.agent, self.second = session, agent, start
        self.lines: list[Line] = []
        self.parent: str | None = None

    def add(self, kind: str, message: object = None, **more: object) -> Line:
        """Add a line, a second after the one before."""
        self.second += 1
        name = f"{self.agent or 'm'}{len(self.lines) + 1}"
        line: Line = {
            "parentUuid": self.parent,
            "isSidechain": bool(self.agent),
            "userType": "external",
            "cwd": "/work/app",
            "sessionId": self.session,
            "version": "2.1.39",
            "gitBranch": "main",
            "type": kind,
            "uuid": name,
            "timestamp": f"2026-02-10T10:{self.second // 60:02}:{self.second % 60:02}.000Z",
            **({"agentId": self.agent} if self.agent else {}),
            **({} if message is None else {"message": message}),
            **more,
        }
        self.lines.append(line)
        self.parent = line["uuid"]
        return line

    def user(self, text: object, **more: object) -> Line:
        """Add words of the user."""
        return self.add("user", {"role": "user", "content": text}, **more)

    def said(self, *blocks: Line | str, id: str = "", output: int = 7, **more: Any) -> Line:
        """Add a line of an assistant's message. id: of the message."""
        content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
        message = {
            "id": id or f"msg_{self.agent}{len(self.lines)}",
            "type": "message",
            "role": "assistant",
            "model": more.pop("model", "claude-opus-4-6"),
            "content": content,
            "stop_reason": more.pop("stop_reason", None),
            "usage": {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 100},
        }
        return self.add("assistant", message, requestId="req_1", **more)

    def result(self, call: str, text: object, *, is_error: bool = False, **more: object) -> Line:
        """Add the result of a call."""
        block = {"tool_use_id": call, "type": "tool_result", "content": text, "is_error": is_error}
        return self.user([block], **more)

    def compacted(self, summary: str) -> None:
        """Add a compaction: its boundary, and the summary."""
        parent, self.parent = self.parent, None
        self.add(
            "system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=parent,
            compactMetadata={"trigger": "auto", "preTokens": 150_000},
        )  # fmt: skip
        self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)


def bash(call: str, command: str = "ls") -> Line:
    """Return a call of Bash."""
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}


def task(call: str, prompt: str, kind: str = "Explore", tool: str = "Task", **more: object) -> Line:
    """Return a call that begins a sub-agent."""
    given = {"description": "Look around", "prompt": prompt, "subagent_type": kind, **more}
    return {"type": "tool_use", "id": call, "name": tool, "input": given}


def write(path: Path, *lines: Line | str | bytes) -> Path:
    """Write lines; a text is written as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = [
        one if isinstance(one, bytes) else (one if isinstance(one, str) else json.dumps(one)).encode()
        for one in lines
    ]
    path.write_bytes(b"".join(one if one.endswith(b"\n") else one + b"\n" for one in raw))
    return path


def imported(folder: Path, *paths: Path) -> list[Imported]:
    """Import files into the log of a folder."""

    async def run() -> list[Imported]:
        log = log_of(str(folder / "log.db"), "process")
        await log.open()
        try:
            return [await SessionImport(log, one, Secrets()).run() for one in sessions_in(paths or [folder])]
        finally:
            await log.close()

    return asyncio.run(run())


def recording(folder: Path, session: str, look: Callable[[Recording], T]) -> T:
    """Look at a session of the log of a folder, once its decisions are verified and its rules checked."""
    with Recording.open(str(folder / "log.db"), session) as found:
        assert found.verify().is_ok
        checker = LogChecker()
        for event in found.events:
            checker.hear(event)
        assert [*checker.breaches, *check_requests(list(found.events))] == []
        return look(found)


def bodies(folder: Path, session: str, *kinds: type) -> list[Any]:
    """Return the messages of some kinds in a session, verified."""
    return recording(
        folder, session, lambda found: [e.body for e in found.events if isinstance(e.body, kinds)]
    )


def sent(folder: Path, session: str, address: str = "host") -> list[Any]:
    """Return the messages of an agent's last request."""

    def look(found: Recording) -> list[Any]:
        wishes = [e.seq for e in found.events if e.kind == "TurnRequested" and e.sender == address]
        return [json.loads(bytes(one)) for one in found.request(wishes[-1]).messages]

    return recording(folder, session, look)


def whole(*writers: Writer) -> Sequence[Line]:
    """Return the lines of conversations in one file, in the order of their times."""
    return sorted((line for one in writers for line in one.lines), key=lambda line: line["timestamp"])
