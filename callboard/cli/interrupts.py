"""Ctrl-C while an ask runs: the first cancels the ask, the second ends the process."""

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
    """The signals of one session. signal: the first that came, 0 for none."""

    def __init__(self, session: Session, leaving: Callable[[], None], lead: str) -> None:
        self.signal = 0
        self._session = session
        self._leaving = leaving
        self._lead = lead
        self._cancelling: asyncio.Task[Outcome | None] | None = None

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code that shells expect after a signal; without one, `otherwise`."""
        return 128 + self.signal if self.signal else otherwise

    def take(self, number: int) -> None:
        """Cancel the ask; at the second signal, end the process."""
        if self.signal:
            self._leave(number)
        self.signal = number
        talk(f"{self._lead}cancelling the ask; press Ctrl-C again to leave at once")
        self._cancelling = asyncio.ensure_future(self._session.cancel("interrupted"))

    def _leave(self, number: int) -> None:
        """End the process at once. The log stays a prefix of what happened, as after any crash."""
        self._leaving()
        name = self._session.session_id
        talk(f"left; the record of session {name} is kept: callboard resume {name} MODULE:AGENT goes on")
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(128 + number)  # a tool that hangs would hold up an orderly exit


@contextlib.contextmanager
def interrupts(
    session: Session, leaving: Callable[[], None] = lambda: None, *, lead: str = ""
) -> Iterator[Interrupts]:
    """Handle Ctrl-C and SIGTERM for this session while the body runs.

    leaving: restores the terminal before the process ends.
    lead: text before the notice, such as the end of an open line.
    """
    loop = asyncio.get_running_loop()
    taken = Interrupts(session, leaving, lead)
    set_up = []
    for number in _SIGNALS:
        # Windows has no signals on the event loop: Ctrl-C ends the program there.
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, taken.take, int(number))
            set_up.append(number)
    try:
        yield taken
    finally:
        for number in set_up:
            loop.remove_signal_handler(number)
