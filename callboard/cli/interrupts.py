"""Ctrl-C while an ask runs: once cancels the ask, twice leaves the process."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Final

from callboard.cli.output import talk
from callboard.runtime.sessions.outcome import Outcome
from callboard.runtime.sessions.session import Session

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """What came in so far. signal: the first, 0 for none."""

    def __init__(self, session: Session, leaving: Callable[[], None], lead: str) -> None:
        self.signal = 0
        self._session = session
        self._leaving = leaving
        self._lead = lead
        self._cancelling: asyncio.Task[Outcome | None] | None = None

    def exit_code(self, otherwise: int) -> int:
        """What shells expect of a program that was interrupted."""
        return 128 + self.signal if self.signal else otherwise

    def take(self, number: int) -> None:
        """Cancel the ask; if that was asked for already, leave."""
        if self.signal:
            self._leave(number)
        self.signal = number
        talk(f"{self._lead}cancelling the ask; Ctrl-C again leaves at once")
        self._cancelling = asyncio.ensure_future(self._session.cancel("interrupted"))

    def _leave(self, number: int) -> None:
        """End the process without waiting for anything: what hangs may never return.

        The log stays a whole prefix of what happened, as after any crash.
        """
        self._leaving()
        name = self._session.session_id
        talk(f"left; session {name} keeps all that was recorded; callboard resume {name} MODULE:AGENT")
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(128 + number)


@contextlib.contextmanager
def interrupts(
    session: Session, leaving: Callable[[], None] = lambda: None, *, lead: str = ""
) -> Iterator[Interrupts]:
    """Take Ctrl-C and SIGTERM meant for this session. leaving: puts the terminal in order before the end.
    lead: what goes before the notice, such as the end of an open line.

    Where the event loop has no signals (Windows), Ctrl-C ends the program as it always does.
    """
    loop = asyncio.get_running_loop()
    taken = Interrupts(session, leaving, lead)
    set_up = []
    for number in _SIGNALS:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, taken.take, int(number))
            set_up.append(number)
    try:
        yield taken
    finally:
        for number in set_up:
            loop.remove_signal_handler(number)
