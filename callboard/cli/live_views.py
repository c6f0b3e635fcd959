"""The two views of a live session: a tree that is drawn over itself, and plain lines."""

from collections import deque
from itertools import islice
from typing import TextIO

from rich.console import Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlCode, ControlType
from rich.text import Text

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin
from callboard.cli.output import console_on
from callboard.cli.terminal_escape import safe_line
from callboard.cli.tree_view import Space, name_of, tree_lines
from callboard.replay.formats import counted, dollars, duration, tokens
from callboard.runtime.clock import now_ms
from callboard.runtime.log.tree import Node, Tree


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
    spent = [counted(node.turns, "turn"), counted(node.tools, "tool"), f"{tokens(node.usage.tokens)} tokens"]
    spent += [dollars(node.usage.micro_usd)] * bool(node.usage.micro_usd)
    spent.append(duration(node.ended_at - node.started_at))
    return f"{node.kind}; {', '.join(spent)}" + (f"; {safe_line(node.detail, 300)}" if node.detail else "")
