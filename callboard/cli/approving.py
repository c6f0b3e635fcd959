"""Approval questions on the terminal, one at a time: the tree makes room and is drawn again below."""

import asyncio
import contextlib
import sys
from typing import Final, Literal

import click

from callboard.cli.live import LiveTree
from callboard.cli.output import talk
from callboard.cli.terminal_escape import indented, safe_line, safe_text
from callboard.runtime.approvals import Approval

Mode = Literal["ask", "all", "none"]

_SHOWN_CHARS_MAX: Final = 4_000
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"", "n", "no"})


class Approver:
    """The approver of a `Runtime`. view: the tree on the terminal, once there is one."""

    def __init__(self, mode: Mode) -> None:
        self.view: LiveTree | None = None
        self._mode = mode
        self._turn = asyncio.Lock()

    async def __call__(self, question: Approval) -> bool | str:
        """Return True to let the call run, else the reason for the model."""
        if self._mode == "all":
            return True
        if self._mode == "none":
            return "this run approves no calls (--approve none)"
        if not sys.stdin.isatty():
            return "no person can be asked: stdin is not a terminal (--approve all allows every call)"
        async with self._turn:
            return await self._ask(question)

    async def _ask(self, question: Approval) -> bool | str:
        with contextlib.ExitStack() as stack:
            if self.view is not None and self.view.is_live:
                self.view.close()
                stack.callback(self.view.start)
            for line in lines(question):
                talk(line)
            click.echo("Let it run? [y/N, or why not] ", nl=False, err=True)
            return verdict(await _typed())


def lines(question: Approval) -> list[str]:
    """Return the lines of a question."""
    who = f"{question.address} ({question.profile})" if question.profile else question.address
    arguments = safe_text(bytes(question.arguments).decode())
    if len(arguments) > _SHOWN_CHARS_MAX:
        left = len(arguments) - _SHOWN_CHARS_MAX
        arguments = f"{arguments[:_SHOWN_CHARS_MAX]} ... and {left} characters more"
    found = [f"{safe_line(who)} wants to call {safe_line(question.tool)}, effect {question.effect}, with"]
    found += indented(arguments).splitlines()
    if question.is_repeat:
        found.append("It was interrupted before and may have taken effect: check before you allow it.")
    return found


def verdict(line: str) -> bool | str:
    """Read a typed line: yes, no, or the reason for a no."""
    word = line.strip()
    if word.lower() in _YES:
        return True
    return False if word.lower() in _NO else word


async def _typed() -> str:
    """Read one line from the terminal; empty at its end."""
    loop = asyncio.get_running_loop()  # a thread that waits for a line could not be cancelled
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
