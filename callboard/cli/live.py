"""A live view of a session: the delegation tree on a terminal, plain lines anywhere else.

    async with watching(session, sys.stderr, title="survey") as view:
        outcome = await session.ask("...")
    view.tree                                    # the agents, as they ended

On a terminal the tree is drawn a few times a second, never higher than the terminal, and the last drawing
stays. In a pipe, a file, CI or TERM=dumb, each start, end and denial is one line.

The tree is fed and drawn on the event loop, so no thread sees it half changed. `diverted` sends the output
of user code to `view.capture`, which prints it above the tree.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Final, Self, TextIO

import click

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Ask, AskEnded
from callboard.cli.live_views import DrawnTree, PlainLines
from callboard.cli.output import is_terminal, talk
from callboard.cli.stdout_capture import StdoutCapture
from callboard.cli.terminal_escape import indented, safe_line
from callboard.replay.tree import Tree
from callboard.runtime.failure_text import failure_text
from callboard.runtime.sessions.session import Session

_REFRESH_S: Final = 0.125
_SHARE: Final = 20
"""Drawing takes at most 1/20 of the event loop's time."""

_CATCH_UP_S: Final = 2.0
"""Seconds that the view waits at the end for late events."""


class LiveTree:
    """A view of one session's agents; give it every event. Use it as a context manager.

    out: the stream to draw on, stderr if None.
    title: a line above the tree.
    is_live: draw the tree, or print plain lines; None draws on terminals.
    known: the events up to this seq are no news and print no lines.
    """

    def __init__(
        self, out: TextIO | None = None, *, title: str = "", is_live: bool | None = None, known: int = 0
    ) -> None:
        out = out or sys.stderr
        self.tree = Tree()
        self.last_seq = 0
        self._known = known
        self._is_ended = False
        self.is_live = is_terminal(out) if is_live is None else is_live
        self._out, self._title = out, title
        self._view: DrawnTree | PlainLines = self._new_view()
        self._is_open = False
        self.capture: Final = StdoutCapture(self._say)
        self._news = asyncio.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, event: Event) -> None:
        """Add an event."""
        before = len(self.tree.nodes)
        self.tree.add(event)
        self.last_seq = event.seq
        self._is_ended = isinstance(event.body, AskEnded) or (
            self._is_ended and not isinstance(event.body, Ask)
        )
        self._view.add(event, self.tree, before, is_news=event.seq > self._known)
        self._news.set()

    def progress(self, address: str, text: str) -> None:
        """Show the progress of a tool as the state of its agent, until the next event."""
        node = self.tree.nodes.get(address)
        if node is not None and not node.is_over:
            node.state = safe_line(text, 80)

    def refresh(self) -> None:
        """Draw the tree as it is now."""
        if not self._is_open:
            return
        try:
            self._view.draw(self.tree)
        except Exception as error:  # a faulty drawing must not end the session it shows
            self._is_open = False
            self._view.stop()
            talk(f"the tree cannot be drawn ({failure_text(error)}); the session goes on")

    def start(self) -> None:
        """Take the terminal. After `close`, this draws a new tree below the old one."""
        self._is_open = True
        self._view.start()

    def close(self) -> None:
        """Draw the tree a last time and release the terminal. May be called twice."""
        if not self._is_open:
            return
        self.capture.flush()
        self.refresh()
        if self._is_open:
            self._view.stop()
        self._is_open = False
        if self.is_live:
            self._view = self._new_view()

    def _new_view(self) -> "DrawnTree | PlainLines":
        return DrawnTree(self._out, self._title) if self.is_live else PlainLines(self._out, self._title)

    def _say(self, line: str) -> None:
        if self._is_open:
            self._view.say(quoted(line))
        else:
            self._out.write(quoted(line) + "\n")

    async def caught_up(self) -> None:
        """Wait until the view has seen the end of the ask, at most two seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP_S):
                while not self._is_ended:
                    self._news.clear()
                    await self._news.wait()


@contextlib.asynccontextmanager
async def watching(
    session: Session, out: TextIO | None = None, *, title: str = "", start: int = 1, known: int = 0
) -> AsyncIterator[LiveTree]:
    """Show the session's agents while the body runs. The body must end before the session is closed.

    start: the first event to show.
    known: as for `LiveTree`.
    """
    with LiveTree(out, title=title, known=known) as view:
        tasks = [
            asyncio.create_task(_feed(session, view, start)),
            asyncio.create_task(_progress(session, view)),
            asyncio.create_task(_tick(view)),
        ]
        try:
            yield view
            await view.caught_up()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def diverted(view: LiveTree | None) -> Iterator[None]:
    """Send the output of user code to stderr while the body runs: stdout is for results.

    view: the drawn tree, which that output must not cross.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(view.capture if view else _quoting(sys.stderr)))
        if view is not None and view.is_live:
            stack.enter_context(contextlib.redirect_stderr(view.capture))
        yield


def quoted(line: str) -> str:
    """Put a line of foreign output behind a margin, so that it cannot pass for ours."""
    return indented(line.rstrip("\r").replace("\n", " "))


def _quoting(out: TextIO) -> StdoutCapture:
    return StdoutCapture(lambda line: click.echo(quoted(line), file=out))


async def watch(session: Session, out: TextIO | None = None, *, title: str = "") -> Tree:
    """Show the session's agents until it ends. Cancel this to stop earlier."""
    with LiveTree(out, title=title) as view:
        ticking = asyncio.create_task(_tick(view))
        try:
            await _feed(session, view, 1)
        finally:
            ticking.cancel()
        return view.tree


async def _feed(session: Session, view: LiveTree, start: int) -> None:
    async for event in session.events(start):
        view.add(event)


async def _progress(session: Session, view: LiveTree) -> None:
    async for address, text in session.progress():
        view.progress(address, text)


async def _tick(view: LiveTree) -> None:
    """Draw at intervals, longer ones if drawing takes long."""
    loop = asyncio.get_running_loop()
    while view.is_live:
        begun = loop.time()
        view.refresh()
        await asyncio.sleep(max(_REFRESH_S, _SHARE * (loop.time() - begun)))
