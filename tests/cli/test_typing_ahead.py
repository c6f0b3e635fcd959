"""Lines typed while an ask runs: told to the host, or kept as the next prompts. None is lost."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import Agent, Runtime, ScriptedModel, say
from callboard.actors.protocol.request import ModelRequest
from callboard.cli.typing_ahead import TypingAhead
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session


class Keyboard:
    """A pipe in place of the terminal."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()

    def fileno(self) -> int:
        return self.reading

    def types(self, data: bytes) -> None:
        os.write(self._writing, data)

    def ends(self) -> None:
        os.close(self._writing)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Keyboard:
    made = Keyboard()
    monkeypatch.setattr("sys.stdin", made)
    return made


def typing(
    keyboard: Keyboard, body: Callable[[Session, TypingAhead, asyncio.Event], Awaitable[None]]
) -> tuple[list[str], list[str]]:
    """Ask a host, let the body type while its model works, and return its requests and the kept lines."""
    read: list[str] = []
    kept: list[str] = []

    async def scene() -> None:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def policy(request: ModelRequest) -> Step:
            read.append(b"".join(map(bytes, request.messages)).decode())
            asked.set()
            await may_answer.wait()
            return say("done")

        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session: Any = await runtime.open(Agent("host"))
            asking = asyncio.create_task(session.ask("go"))
            await asked.wait()
            async with TypingAhead(session, kept) as typed:
                await body(session, typed, may_answer)
                may_answer.set()
                await asking

    asyncio.run(scene())
    return read, kept


async def told(session: Session, count: int) -> None:
    async for event in session.events():
        count -= event.kind == "Told"
        if not count:
            return


def test_typed_lines_are_told_to_the_host(keyboard: Keyboard, capsys: pytest.CaptureFixture[str]) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.types(b"leave the te")
        await asyncio.sleep(0)
        keyboard.types(b"sts out\n\n  and the docs\n")
        await told(session, 2)

    read, kept = typing(keyboard, body)
    assert "leave the tests out" in read[1]
    assert "and the docs" in read[1]
    assert not kept
    assert "the host reads it in turn 2" in capsys.readouterr().err


def test_a_line_that_the_host_cannot_hear_is_kept(
    keyboard: Keyboard, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        may_answer.set()
        await session.outcome
        typed.take("too late")
        typed.take("x" * 20_000)

    _, kept = typing(keyboard, body)
    assert kept == ["too late"]
    said = capsys.readouterr().err
    assert "kept as the next prompt" in said
    assert "at most 16,000 characters" in said


def test_commands_and_a_line_without_its_end_wait_for_the_end_of_the_ask(
    keyboard: Keyboard, capsys: pytest.CaptureFixture[str]
) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.types(b"/tree\n/quit\nand th")
        while len(typed.kept) < 2:  # noqa: ASYNC110  # the loop reads the pipe, and tells no one
            await asyncio.sleep(0)

    read, kept = typing(keyboard, body)
    assert kept == ["/tree", "/quit", "and th"]
    assert len(read) == 1
    assert "/quit waits for the end of this ask" in capsys.readouterr().err


def test_the_end_of_the_input_stops_the_reader(keyboard: Keyboard) -> None:
    async def body(session: Session, typed: TypingAhead, may_answer: asyncio.Event) -> None:
        keyboard.ends()
        await asyncio.sleep(0.01)

    assert typing(keyboard, body)[1] == []
