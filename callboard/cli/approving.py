"""Asking a person on the terminal whether a call may run.

One question at a time. The tree that is being drawn makes room for it, and is drawn again below. What an
agent wants to call is shown as data: stripped of control sequences, behind a margin.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import click

from callboard.cli.live import LiveTree
from callboard.cli.output import talk
from callboard.cli.terminal_escape import indented, safe_line, safe_text
from callboard.runtime.approvals import Approval

F = TypeVar("F", bound=Callable[..., Any])
Mode = Literal["ask", "all", "none"]

_SHOWN_CHARS_MAX: Final = 4_000
_YES: Final = frozenset({"y", "yes"})
_NO: Final = frozenset({"", "n", "no"})


def approve_option(function: F) -> F:
    """`--approve ask|all|none`."""
    return click.option(
        "--approve",
        type=click.Choice(["ask", "all", "none"]),
        default="ask",
        show_default=True,
        help="For tools that want a person asked: ask on the terminal (where there is none, refuse), "
        "allow all, or refuse all.",
    )(function)


class Approver:
    """What a `Runtime` asks. view: the tree on the terminal, once there is one."""

    def __init__(self, mode: Mode) -> None:
        self.view: LiveTree | None = None
        self._mode = mode
        self._turn = asyncio.Lock()

    async def __call__(self, question: Approval) -> bool | str:
        """True, or why not."""
        if self._mode == "all":
            return True
        if self._mode == "none":
            return "no approvals are given in this run (--approve none)"
        if not sys.stdin.isatty():
            return "nobody is there to be asked (stdin is no terminal; --approve all allows calls)"
        async with self._turn:
            return await self._ask(question)

    async def _ask(self, question: Approval) -> bool | str:
        is_drawn = self.view is not None and self.view.is_live
        if self.view is not None and is_drawn:
            self.view.close()
        try:
            for line in lines(question):
                talk(line)
            click.echo("Let it run? [y/N, or why not] ", nl=False, err=True)
            return verdict(await _typed())
        finally:
            if self.view is not None and is_drawn:
                self.view.start()


def lines(question: Approval) -> list[str]:
    """The question, as it is shown."""
    who = f"{question.address} ({question.profile})" if question.profile else question.address
    arguments = safe_text(bytes(question.arguments).decode())
    if len(arguments) > _SHOWN_CHARS_MAX:
        left = len(arguments) - _SHOWN_CHARS_MAX
        arguments = f"{arguments[:_SHOWN_CHARS_MAX]} ... and {left} characters more"
    found = [f"{safe_line(who)} wants to call {safe_line(question.tool)}, effect {question.effect}, with"]
    found += [indented(line) for line in arguments.splitlines() or [""]]
    if question.is_repeat:
        found.append("It was interrupted before, and whether it took effect is not known: check first.")
    return found


def verdict(line: str) -> bool | str:
    """What a typed line says: yes, no, or why not."""
    word = line.strip()
    if word.lower() in _YES:
        return True
    return False if word.lower() in _NO else word


async def _typed() -> str:
    """One line from the terminal; empty at its end. Waits on the event loop, so that it can be given up."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        if not typed.done():
            typed.set_result(sys.stdin.readline())

    loop.add_reader(sys.stdin.fileno(), read)
    try:
        return await typed
    finally:
        loop.remove_reader(sys.stdin.fileno())
