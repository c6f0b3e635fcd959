"""Lines that a person types while agents work: words for the host, or else the next prompts.

Rules
  - A line goes to the host as words (`Session.tell`). The host reads them in its next request.
  - A host that cannot hear, for example because it has just said its last word, leaves the line to the next
    ask. Nothing that was typed is lost, also no line that ends without a line break.
  - A command of the chat, such as `/quit`, is no words: it waits for the end of the ask.
"""

import asyncio
import os
import sys
from typing import Final, Self

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.errors import CallboardError, InvalidPrompt
from callboard.cli.output import talk
from callboard.cli.terminal_escape import safe_line
from callboard.runtime.sessions.session import Session

QUIT: Final = "/quit"
COMMANDS: Final = frozenset({"/help", "/tree", QUIT})
"""The lines that the chat handles itself."""


class TypingAhead:
    """Reads the terminal while an ask runs. kept: the lines that the host did not hear."""

    def __init__(self, session: Session, kept: list[str]) -> None:
        self.kept = kept
        self._session = session
        self._rest = b""
        self._told: set[asyncio.Task[None]] = set()
        self._descriptor = sys.stdin.fileno()

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop reading, and keep what the host has not heard by the end of its ask."""
        self.stop()
        await asyncio.gather(*self._told)
        if line := self._rest.decode("utf-8", "replace").strip():
            self.kept.append(line)

    def start(self) -> None:
        """Read lines from now on."""
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def stop(self) -> None:
        """Leave the terminal to others."""
        asyncio.get_running_loop().remove_reader(self._descriptor)

    def _read(self) -> None:
        # Without buffering: a line that stays in Python's buffer would not wake the loop again.
        data = os.read(self._descriptor, 65_536)
        if not data:
            self.stop()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self.take(line.decode("utf-8", "replace").strip())

    def take(self, line: str) -> None:
        """Tell the host a line."""
        if line in COMMANDS:
            self.kept.append(line)
            talk(f"[{line} waits for the end of this ask]")
        elif line:
            task = asyncio.get_running_loop().create_task(self._tell(line))
            self._told.add(task)
            task.add_done_callback(self._told.discard)

    async def _tell(self, line: str) -> None:
        try:
            turn = await self._session.tell(HOST, line)
        except InvalidPrompt as error:
            talk(f"[{safe_line(str(error), 300)}]")
        except CallboardError:
            self.kept.append(line)
            talk("[the host cannot read this now; it is kept as the next prompt]")
        else:
            talk(f"[the host reads it in turn {turn}]")
