"""The view of a chat while an ask runs: the host's text as it streams, the tree while it delegates."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final

import click
import msgspec

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import AskEnded, Begin, ModelReplied
from callboard.cli.live import LiveTree, background
from callboard.cli.terminal_escape import safe_text
from callboard.runtime.sessions.session import Session

_LAG_S: Final = 0.04
"""Seconds by which text is shown late: the events before it come once they are committed, a few ms later."""


class Transcript:
    """A stream of text: pieces are added, and new text is taken with the breaks between replies.

    text: all that was added. ended: the position at which the last complete reply ended. It is computed from
    the length of the reply: its event arrives once it is durable, when the next reply may have begun.
    """

    def __init__(self) -> None:
        self.text = ""
        self.ended = 0
        self._shown = 0
        self._ends: list[int] = []

    def add(self, piece: str) -> None:
        """Add a piece of text."""
        self.text += piece

    def end_reply(self, reply: ModelReplied) -> None:
        """End a reply. The text of a reply that failed ends at the current end of the stream."""
        length = text_length(reply.content) if reply.status == "ok" else None
        end = len(self.text) if length is None else min(self.ended + length, len(self.text))
        if end > self.ended:
            self._ends.append(end)
            self.ended = end

    def take(self, upto: int | None = None) -> str:
        """Take the new text up to a position, each reply ended with a line break."""
        upto = len(self.text) if upto is None else upto
        made = []
        while self._ends and self._ends[0] <= upto:
            end = self._ends.pop(0)
            made.append(self._upto(end) + "\n" * (not self.text[:end].endswith("\n")))
        return "".join([*made, self._upto(upto)])

    def _upto(self, end: int) -> str:
        piece = self.text[self._shown : end]
        self._shown = max(self._shown, end)
        return piece


def text_length(content: Json) -> int | None:
    """Count the characters of text in a reply; None if it cannot be read."""
    try:
        blocks = msgspec.json.decode(content, type=list[dict[str, object]])
    except (msgspec.DecodeError, RecursionError):
        return None
    texts = [block.get("text") for block in blocks if block.get("type") == "text"]
    return sum(len(text) for text in texts if isinstance(text, str))


class ChatView:
    """The text of one ask on stdout, if stdout is a terminal, and its agents on stderr.

    While sub-agents work, the tree has the terminal and text waits.
    """

    def __init__(self, *, is_streaming: bool) -> None:
        self.live = LiveTree(sys.stderr)
        self.transcript = Transcript()
        self._out = sys.stdout
        self._is_streaming = is_streaming
        self._is_tree_shown = False
        self._is_line_open = False
        self._before_delegation: int | None = None

    def add(self, event: Event) -> None:
        """Add an event."""
        if isinstance(event.body, ModelReplied) and event.recipient == HOST:
            self.transcript.end_reply(event.body)
        if isinstance(event.body, Begin) and event.recipient != HOST and self._before_delegation is None:
            self._before_delegation = self.transcript.ended
        self.live.add(event)

    def draw(self) -> None:
        """Show new text, or the tree while a sub-agent works."""
        if not self.live.is_live:
            self._show_text()
            return
        if self._before_delegation is not None and not self._is_tree_shown:
            self._show_text(self._before_delegation)
            self._end_line()
            self.live.start()
            self._is_tree_shown = True
        if not self._is_tree_shown:
            self._show_text()
        elif any(not node.is_over for node in self.live.tree.nodes.values() if node.address != HOST):
            self.live.refresh()
        else:
            self._hide_tree()

    def close(self) -> None:
        """Show the rest and release the terminal."""
        self.draw()
        self._hide_tree()
        self._show_text()
        self._end_line()

    def _hide_tree(self) -> None:
        if self._is_tree_shown:
            self.live.close()
            self._is_tree_shown, self._before_delegation = False, None

    def _show_text(self, upto: int | None = None) -> None:
        """Write the text up to a position, if text is streamed."""
        text = self.transcript.take(upto) if self._is_streaming else ""
        if text:
            click.echo(safe_text(text), nl=False, file=self._out)
            self._is_line_open = not text.endswith("\n")

    def _end_line(self) -> None:
        """End the line on stdout if text stands on it."""
        if self._is_line_open:
            click.echo(file=self._out)
            self._is_line_open = False


@contextlib.asynccontextmanager
async def watching_chat(session: Session, start: int, *, is_streaming: bool) -> AsyncIterator[ChatView]:
    """Show one ask while the body runs. start: the first event to show."""
    view = ChatView(is_streaming=is_streaming)
    if not view.live.is_live:
        view.live.start()
    try:
        async with background(_events(session, view, start), _texts(session, view), _draw(view)):
            yield view
            await view.live.caught_up()
    finally:
        view.close()


async def _events(session: Session, view: ChatView, start: int) -> None:
    async for event in session.events(start):
        view.add(event)
        if isinstance(event.body, AskEnded):
            return


async def _texts(session: Session, view: ChatView) -> None:
    async for address, piece in session.text():
        if address == HOST:
            view.transcript.add(piece)


async def _draw(view: ChatView) -> None:
    while True:
        await asyncio.sleep(_LAG_S)
        view.draw()
