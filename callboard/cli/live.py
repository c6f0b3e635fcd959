"""A live view of a session: the delegation tree on a terminal, plain lines in a pipe, a file or CI.

The tree is fed and drawn on the event loop, so no thread sees it half changed.
"""

import asyncio
import contextlib
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Final, Self, TextIO

import click

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.events import Event
from callboard.cli.live_views import DrawnTree, PlainLines
from callboard.cli.output import is_terminal, talk
from callboard.cli.terminal_escape import indented, safe_line
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.tree import Tree
from callboard.runtime.sessions.session import Session

_REFRESH_S: Final = 0.125
_SHARE: Final = 20  # drawing takes at most 1/20 of the event loop's time
_CATCH_UP_S: Final = 2.0  # the view waits at the end for late events
_LONGEST: Final = 10_000  # characters of a line without an end, after which it is forwarded


class StdoutCapture(io.TextIOBase):
    """A text stream that passes each whole line to `say`, from any thread. Replaces `sys.stdout`."""

    encoding = "utf-8"  # programs read these two; nothing is encoded here
    errors = "strict"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._rest = ""
        self._lock = threading.RLock()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Forward the lines that are complete now."""
        with self._lock:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._say(line)
            if len(self._rest) > _LONGEST:
                self.flush()
        return len(text)

    def flush(self) -> None:
        """Forward the text that has no line end yet."""
        with self._lock:
            rest, self._rest = self._rest, ""
            if rest:
                self._say(rest)


class LiveTree:
    """A view of one session's agents; give it every event. Use it as a context manager.

    out: stderr if None. is_live: draw the tree, or print plain lines; None draws on terminals.
    known: the events up to this seq are no news and print no lines.
    """

    def __init__(
        self, out: TextIO | None = None, *, title: str = "", is_live: bool | None = None, known: int = 0
    ) -> None:
        self.tree = Tree()
        self.last_seq = 0
        self._known = known
        self._out, self._title = out or sys.stderr, title
        self.is_live = is_terminal(self._out) if is_live is None else is_live
        self._view = self._new_view()
        self._is_open = False
        self.capture: Final = StdoutCapture(self._say)
        self._ended = asyncio.Event()

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
        self._view.add(event, self.tree, before, is_news=event.seq > self._known)
        if isinstance(event.body, AskEnded):
            self._ended.set()
        elif isinstance(event.body, Ask):
            self._ended.clear()

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
            talk(f"the tree cannot be drawn ({failure_text(error)}); the session continues")

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

    def _new_view(self) -> DrawnTree | PlainLines:
        return DrawnTree(self._out, self._title) if self.is_live else PlainLines(self._out, self._title)

    def _say(self, line: str) -> None:
        if self._is_open:
            self._view.say(quoted(line))
        else:
            self._out.write(quoted(line) + "\n")

    async def caught_up(self) -> None:
        """Wait until the view has seen the end of the ask, at most two seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _CATCH_UP_S)


@contextlib.asynccontextmanager
async def watching(
    session: Session, out: TextIO | None = None, *, title: str = "", known: int = 0
) -> AsyncIterator[LiveTree]:
    """Show the session's agents while the body runs. The body must end before the session is closed."""
    with LiveTree(out, title=title, known=known) as view:
        async with background(_feed(session, view), _progress(session, view), _tick(view)):
            yield view
            await view.caught_up()


@contextlib.asynccontextmanager
async def background(*work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Run coroutines beside the body; cancel them at its end. Their errors are not raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def diverted(view: LiveTree | None) -> Iterator[None]:
    """Send the output of user code to stderr, and not across the drawn tree: stdout is for results."""
    err = sys.stderr
    capture = view.capture if view else StdoutCapture(lambda line: click.echo(quoted(line), file=err))
    with contextlib.redirect_stdout(capture), contextlib.ExitStack() as stack:
        if view is not None and view.is_live:
            stack.enter_context(contextlib.redirect_stderr(capture))
        yield


def quoted(line: str) -> str:
    """Put a line of foreign output behind a margin, so that it cannot pass for ours."""
    return indented(line.rstrip("\r").replace("\n", " "))


async def _feed(session: Session, view: LiveTree) -> None:
    async for event in session.events(1):
        view.add(event)


async def _progress(session: Session, view: LiveTree) -> None:
    async for item in session.progress(of="*"):
        view.progress(item.address, item.text)


async def _tick(view: LiveTree) -> None:
    """Draw at intervals, longer ones if drawing takes long."""
    loop = asyncio.get_running_loop()
    while view.is_live:
        begun = loop.time()
        view.refresh()
        await asyncio.sleep(max(_REFRESH_S, _SHARE * (loop.time() - begun)))
