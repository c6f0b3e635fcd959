"""A live view of a session: the delegation tree on a terminal, plain lines in a pipe, a file or CI.

The tree is drawn over itself. It is fed and drawn on the event loop, so no thread sees it half changed.
"""

import asyncio
import contextlib
import io
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from itertools import islice
from typing import Final, Self, TextIO

import click
from rich.console import Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlCode, ControlType
from rich.text import Text

from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.cli.output import console_on, is_terminal, talk
from callboard.cli.terminal_escape import indented, safe_line
from callboard.cli.tree_view import Space, name_of, tree_lines
from callboard.replay.formats import counted, dollars, duration, tokens
from callboard.runtime.clock import now_ms
from callboard.runtime.failure_text import failure_text
from callboard.runtime.log.tree import Node, Tree
from callboard.runtime.sessions.session import Session


class DrawnTree:
    """A tree that rich draws over itself."""

    def __init__(self, out: TextIO, title: str) -> None:
        self._console = console_on(out, is_drawn=True)
        self._title = Text(safe_line(title, 200), style="bold")
        self._drawn: tuple[int, list[int]] = (0, [])
        self._said: deque[str] = deque()  # rich prints from several threads garble each other's cursor
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def start(self) -> None:
        """Take the terminal."""
        self._live.start()

    def stop(self) -> None:
        """Release the terminal; the last drawing stays."""
        self._tell()
        self._live.stop()

    def add(self, event: Event, tree: Tree, known: int, *, is_news: bool = True) -> None:
        """Do nothing: the next drawing shows the event."""

    def draw(self, tree: Tree) -> None:
        """Draw the tree over its last drawing."""
        size = self._console.size
        is_ascii = not self._console.encoding.lower().startswith("utf")
        rows = max(3, size.height - 1 - bool(self._title.plain))
        lines = tree_lines(tree, Space(size.width, rows, is_ascii), now_ms())
        if self._title.plain:
            lines = [self._title, *lines]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        self._clear_reflowed(size.width)
        self._tell()
        self._live.update(Group(*lines), refresh=True)
        self._drawn = size.width, [min(line.cell_len, size.width) for line in lines]

    def _tell(self) -> None:
        """Print the lines that came since, all at once."""
        # One print for all lines: rich draws the tree again after each.
        lines = [self._said.popleft() for _ in range(len(self._said))]
        if lines:
            self._console.print(Text("\n".join(lines)))

    def _clear_reflowed(self, width: int) -> None:
        """Wipe the last drawing away if the terminal has become narrower since."""
        # Most terminals then wrap its lines: it is higher than rich knows, so upper lines would stay.
        old_width, lengths = self._drawn
        if width >= old_width or not lengths:
            return
        rows = sum(max(1, -(-length // width)) for length in lengths)
        wipe: list[ControlCode] = [(ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)]
        self._console.control(
            Control(ControlType.CARRIAGE_RETURN, *(wipe * (rows - 1)), (ControlType.ERASE_IN_LINE, 2)),
            *([Control((ControlType.CURSOR_DOWN, len(lengths) - 1))] if len(lengths) > 1 else []),
        )
        self._drawn = width, [min(length, width) for length in lengths]

    def say(self, line: str) -> None:
        """Print a line above the tree, with the next drawing. Any thread may call this."""
        self._said.append(line)


class PlainLines:
    """One line for each start, end and denial. The cursor is never moved."""

    def __init__(self, out: TextIO, title: str) -> None:
        self._out = out
        self._title = safe_line(title, 200)
        self._ended: set[str] = set()
        self._begun: set[str] = set()
        self._first_at = 0

    def start(self) -> None:
        """Print the title."""
        if self._title:
            self.say(self._title)

    def stop(self) -> None:
        """Do nothing: no terminal was taken."""

    def draw(self, tree: Tree) -> None:
        """Do nothing: lines are printed once."""

    def add(self, event: Event, tree: Tree, known: int, *, is_news: bool = True) -> None:
        """Print a line if an agent began or ended with this event. known: how many there were before."""
        self._first_at = self._first_at or event.at
        if isinstance(event.body, Begin):
            self._ended.discard(event.recipient)
            self._begun.discard(event.recipient)
        elif isinstance(event.body, Forked):
            self._begun.clear()  # of these only the agents begin again that get another answer
        self._tell_start(event, tree, is_news=is_news)
        fresh = islice(tree.nodes.values(), known, None)
        touched = [tree.nodes.get(event.sender), tree.nodes.get(event.recipient)]
        for node in [*(node for node in touched if node), *fresh]:
            if node.is_over and node.address not in self._ended:
                self._ended.add(node.address)
                self._tell(event.at, "denied" if node.kind == "denied" else "end", node, is_news)

    def _tell_start(self, event: Event, tree: Tree, *, is_news: bool) -> None:
        """Tell of an agent that begins; in a fork, once it has an answer that is not the recorded one."""
        node = tree.nodes.get(event.recipient)
        if node is not None and node.started_at and not node.is_recorded and node.address not in self._begun:
            self._begun.add(node.address)
            self._tell(event.at, "start", node, is_news)

    def _tell(self, at: int, what: str, node: Node, is_news: bool) -> None:
        if not is_news:
            return
        if what == "start":
            told = safe_line(node.task, 120)
        else:
            told = "as recorded" if node.is_recorded else ""
            told = told or _end(node) if what == "end" else safe_line(node.detail or "no reason given", 300)
        self.say(f"[{duration(at - self._first_at):>6}] {what:<6} {name_of(node)}: {told}")

    def say(self, line: str) -> None:
        """Print a line."""
        self._out.write(line + "\n")
        self._out.flush()


def _end(node: Node) -> str:
    turns = counted(node.turns, "step" if node.is_program else "turn")
    spent = [turns, counted(node.tools, "tool"), f"{tokens(node.usage.tokens)} tokens"]
    spent += [dollars(node.usage.micro_usd)] * bool(node.usage.micro_usd)
    spent.append(duration(node.ended_at - node.started_at))
    return f"{node.kind}; {', '.join(spent)}" + (f"; {safe_line(node.detail, 300)}" if node.detail else "")


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
