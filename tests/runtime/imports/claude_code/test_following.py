import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.runtime.imports.claude_code import importing
from callboard.runtime.imports.claude_code.files import files_of
from callboard.runtime.imports.claude_code.importing import Imported, SessionImport
from callboard.runtime.log.opening import log_of
from callboard.runtime.secrets.registry import Secrets
from tests.runtime.imports.transcripts import Writer, bash, bodies, imported, task, write
from tests.waiting import until


def add(path: Path, *lines: object, end: str = "\n") -> None:
    """Add lines to a file as a program does that writes it."""
    with path.open("a") as file:
        file.write("\n".join(json.dumps(line) for line in lines) + end)


def followed(folder: Path, work: Callable[[SessionImport, Path], Awaitable[None]]) -> Imported:
    """Follow a transcript into the log of a folder while `work` writes it."""

    async def run() -> Imported:
        log = log_of(str(folder / "log.db"), "process")
        await log.open()
        try:
            path, stop = folder / "s1.jsonl", asyncio.Event()
            one = SessionImport(log, files_of(path), Secrets())
            following = asyncio.ensure_future(one.follow(stop))
            await work(one, path)
            stop.set()
            return await following
        finally:
            await log.close()

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "POLL_S", 0.002)
    monkeypatch.setattr(importing, "QUIET_S", 0.02)


def test_a_reply_is_posted_when_it_is_complete_and_a_half_line_waits(tmp_path: Path) -> None:
    main = Writer()
    main.user("Look.")
    main.said("Let me see.", id="m1")
    main.said(bash("t1"), id="m1")
    main.result("t1", "a.txt")
    main.said("One file.", stop_reason="end_turn")
    path = write(tmp_path / "s1.jsonl", *main.lines[:2])

    async def work(one: SessionImport, path: Path) -> None:
        add(path, main.lines[2])
        await asyncio.sleep(0.1)
        assert one.result().events == 1  # no result, and no other message: more pieces may come
        text = json.dumps(main.lines[3])
        add(path, end=text[:40])
        add(path, end=text[40:] + "\n")
        await until(lambda: one.result().events > 5)
        add(path, main.lines[4])
        await until(lambda: one.result().events > 12)

    found = followed(tmp_path, work)
    assert found.left_out == {}
    kinds = [type(one).__name__ for one in bodies(tmp_path, "s1", ModelReplied, ToolReturned, AskEnded)]
    assert kinds == ["ModelReplied", "ToolReturned", "ModelReplied", "AskEnded"]
    assert imported(tmp_path, path)[0].events == 0


def test_a_sub_agent_that_begins_meanwhile_and_a_new_tool_are_followed(tmp_path: Path) -> None:
    main, sub = Writer(), Writer(agent="a1", start=3)
    main.user("Look.")
    main.said(task("t1", "Find it."), stop_reason="tool_use")
    main.result("t1", "x.txt", toolUseResult={"agentId": "a1"})
    main.said("Found.", stop_reason="end_turn")
    sub.user("Find it.")
    sub.said("x.txt", stop_reason="end_turn")
    write(tmp_path / "s1.jsonl", main.lines[0])

    async def work(one: SessionImport, path: Path) -> None:
        await until(lambda: one.result().made)
        add(path, main.lines[1])
        await until(lambda: one.result().events > 5)
        (tmp_path / "s1" / "subagents").mkdir(parents=True)
        beside = tmp_path / "s1" / "subagents" / "agent-a1.jsonl"
        add(beside, *sub.lines)
        await until(lambda: one.result().events > 11)
        add(path, *main.lines[2:])

    found = followed(tmp_path, work)
    assert found.is_again  # the first event states the tools, so it was written again
    assert [one.text for one in bodies(tmp_path, "s1", AskEnded)] == ["Found."]
    assert imported(tmp_path)[0].events == 0
