"""The delegation tree as lines of a terminal, live or recorded: one agent a line, the sum below.

Figures are each agent's own; the last line sums all agents up. If the tree is higher than the terminal,
agents that ended `ok` are left out first, then those that wait; a line says how many are left out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from callboard.actors.protocol.addresses import HOST, parent_of
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.cli.output import WIDE, padded
from callboard.cli.terminal_escape import safe_line
from callboard.replay.descriptions import words_of
from callboard.replay.formats import counted, dollars, duration, tokens
from callboard.runtime.log.tree import Node, Tree

STYLES: Final = {"ok": "green", "failed": "red", "cancelled": "yellow", "running": "cyan"}
_MARKS: Final = {"ok": "✓", "failed": "✗", "cancelled": "○", "running": "●"}
_ASCII_MARKS: Final = {"ok": "+", "failed": "x", "cancelled": "-", "running": "*"}
_GUIDES: Final = ("├─ ", "└─ ", "│  ", "   ")
_ASCII_GUIDES: Final = ("|- ", "`- ", "|  ", "   ")
_BELOW: Final = str.maketrans("├└─`-✓✗○●+x*", "│" + " " * 11)
"""The branches before an agent's name -> those of a further line about it."""

_NUMBERS_FROM: Final = 60  # columns from which there is room for all numbers
_NOTE_FROM: Final = 110  # columns from which there is room for an agent's prompt
_NOTE_MIN: Final = 16  # columns of a prompt in a drawing that does not change, if nothing else needs them
_NUMBERS: Final = {"turns": 5, "tools": 5, "tokens": 6, "cost": 8, "time": 6}  # widths


@dataclass(frozen=True)
class Space:
    """The space for a drawing. rows: 0 for no bound. width: `WIDE` for no bound."""

    width: int = 80
    rows: int = 0
    is_ascii: bool = False


def tree_lines(tree: Tree, space: Space, now_ms: int, *, is_full: bool = False) -> list[Text]:
    """Return the tree with its heading and its sum, in at most `space.rows` lines.

    is_full: False if the answered questions of a program are part of its own line.
    """
    order = list(tree.walk()) if is_full else tree.folded()
    total = sum_line(order, now_ms)
    if not order:
        return [total]
    room = len(order) if not space.rows else max(1, space.rows - 2)
    chosen_nodes, hidden = choose(order, room)
    names = _names(chosen_nodes, space)
    columns = _Columns.fitting(names, chosen_nodes, space, any(node.usage.micro_usd for _, node in order))
    lines = [columns.heading()]
    for name, (_, node) in zip(names, chosen_nodes, strict=True):
        lines.append(columns.line(name, node, now_ms))
        if node.compactions and not space.rows:
            lines.append(_compaction_line(name, node, space))
    if hidden:
        said = ", ".join(f"{count:,} {status}" for status, count in _by_status(hidden))
        dots = "..." if space.is_ascii else "…"
        lines.append(Text(f"{dots} {len(hidden):,} more: {said}", style="dim"))
    return [*lines, total]


def _compaction_line(name: str, node: Node, space: Space) -> Text:
    """Say where the conversation of an agent became shorter, and how it did so last."""
    start = name[: name.index(node.address)].translate(_BELOW)
    *before, last = node.compactions
    also = f" (and {counted(len(before), 'time')} before, first at {before[0]})" if before else ""
    said = f"compacted at event {last}{also}: {words_of(node.compactions[last])}"
    return Text(start + safe_line(said, max(1, min(space.width - 1 - cell_len(start), 200))), style="dim")


def sum_line(order: Sequence[tuple[int, Node]], now_ms: int) -> Text:
    """Return a line with the number of agents by status, and the usage of all of them."""
    if not order:
        return Text("no agent has started yet", style="dim")
    line = Text(f"{counted(len(order), 'agent')}: ")
    for place, (status, count) in enumerate(_by_status([node for _, node in order])):
        line.append(", " * bool(place)).append(f"{count:,} {status}", style=STYLES[status])
    if asked := sum(node.questions for _, node in order):
        line.append(f"; {counted(asked, 'question')} to models")
    recorded = sum(_is_as_recorded(node) for _, node in order)
    line.append(f" ({recorded:,} as recorded)" * bool(recorded), style="dim")
    used = usage_of(order)
    line.append(
        f"; {tokens(used.tokens)} tokens" + (f", {dollars(used.micro_usd)}" if used.micro_usd else "")
    )
    return line.append(f", {_age(order[0][1], now_ms)}")


def usage_of(order: Sequence[tuple[int, Node]]) -> Usage:
    """Return the sum of these agents' usage."""
    return reduce(plus, (node.usage for _, node in order), ZERO)


def choose(order: Sequence[tuple[int, Node]], room: int) -> tuple[list[tuple[int, Node]], list[Node]]:
    """Choose the agents that get one of `room` lines; return them in the tree's order, and the others."""
    if len(order) <= room:
        return list(order), []
    by_address = {node.address: node for _, node in order}
    kept: set[str] = {HOST}
    for node in sorted(by_address.values(), key=_urgency):
        line = _missing_line(node.address, kept, by_address)
        if len(kept) + len(line) <= room - 1:  # one line is kept for the number of the others
            kept.update(line)
    chosen_nodes = [(depth, node) for depth, node in order if node.address in kept]
    return chosen_nodes, [node for _, node in order if node.address not in kept]


def _missing_line(address: str, kept: set[str], known: dict[str, Node]) -> list[str]:
    """Return the agent and those above it that have no line yet."""
    found = []
    while address in known and address not in kept:
        found.append(address)
        address = parent_of(address)
    return found


def _urgency(node: Node) -> tuple[int, int]:
    """Return the rank for a line: at work, then failed, then waiting for others, then the latest to end."""
    if not node.is_over:
        return (2 if node.state == "delegating" else 0, -node.started_at)
    return (1 if node.status == "failed" else 3, -node.ended_at)


def _by_status(nodes: Sequence[Node]) -> list[tuple[str, int]]:
    counts = Counter(node.status for node in nodes)
    return [(status, counts[status]) for status in ("running", "ok", "failed", "cancelled") if counts[status]]


def _names(chosen_nodes: Sequence[tuple[int, Node]], space: Space) -> list[str]:
    """Return the agents' names, each behind the branches of the tree."""
    tee, corner, bar, blank = _ASCII_GUIDES if space.is_ascii else _GUIDES
    marks = _ASCII_MARKS if space.is_ascii else _MARKS
    names: list[str] = []
    is_open: list[bool] = []  # per depth: does a later sibling follow
    for depth, node in reversed(chosen_nodes):
        is_open += [False] * (depth + 1 - len(is_open))
        guides = "".join(bar if more else blank for more in is_open[1:depth])
        branch = (tee if is_open[depth] else corner) if depth else ""
        names.append(f"{guides}{branch}{marks[node.status]} {name_of(node)}")
        is_open = [*is_open[:depth], True]
    return names[::-1]


def name_of(node: Node) -> str:
    """Return an agent's address, and its profile where that is another name."""
    profile = safe_line(node.profile, 64)
    name = node.address if profile in ("", node.address) else f"{node.address} {profile}"
    return f"{name} (background)" if node.is_background else name


@dataclass(frozen=True)
class _Columns:
    name: int
    state: int
    note: int
    numbers: tuple[tuple[str, int], ...]

    @classmethod
    def fitting(
        cls, names: Sequence[str], chosen_nodes: Sequence[tuple[int, Node]], space: Space, has_cost: bool
    ) -> "_Columns":
        """Fit widths to the terminal: numbers first, then names and states, and notes if there is room."""
        left_out = {"cost"} if not has_cost else set()
        left_out |= {"turns", "tools"} if space.width < _NUMBERS_FROM else set()
        numbers = tuple(column for column in _NUMBERS.items() if column[0] not in left_out)
        room = space.width - 1 - sum(width + 1 for _, width in numbers)
        widest = max(len("state"), *(cell_len(_state(node)) for _, node in chosen_nodes))
        state = 24 if space.width >= _NOTE_FROM else 18
        state = state if space.rows else min(state, widest)  # a live drawing keeps its columns in place
        name = max(len("agent"), *map(cell_len, names))
        has_note = space.width >= _NOTE_FROM
        longest = max(12, room - state - 2 - (24 if has_note else 0))
        name = min(name, longest)
        state = max(5, min(state, room - name - 2))
        note = room - name - state - 4
        has_note |= not space.rows and note >= _NOTE_MIN
        return cls(name, state, note if has_note else 0, numbers)

    def heading(self) -> Text:
        """Return the line of headings."""
        line = f"{padded('agent', self.name)}  {padded('state', self.state)}"
        line += "".join(f" {padded(name, width, is_right=True)}" for name, width in self.numbers)
        return Text(line + ("  task" if self.note else ""), style="dim")

    def line(self, name: str, node: Node, now_ms: int) -> Text:
        """Return the line of one agent."""
        style = "dim" if _is_as_recorded(node) else STYLES[node.status]
        state = _state(node)
        line = Text.assemble(
            (padded(name, self.name), style if node.is_over else ""), "  ", (padded(state, self.state), style)
        )
        values = _values(node, now_ms)
        for column, width in self.numbers:
            line.append(" " + padded(values[column], width, is_right=True))
        if self.note > 8:
            said = (node.detail if node.status == "failed" else "") or node.task
            note = safe_line(said, self.note if self.note < WIDE // 2 else 200)
            line.append("  " + padded(note, min(self.note, max(1, cell_len(note)))), style="dim")
        return line


def _is_as_recorded(node: Node) -> bool:
    """Return whether a fork took all of an agent's answers from its origin, so that the agent did not run."""
    return node.is_recorded and node.is_over


def _state(node: Node) -> str:
    return "as recorded" if _is_as_recorded(node) else safe_line(node.activity)


def _values(node: Node, now_ms: int) -> dict[str, str]:
    return {
        "turns": f"{node.asked:,}",
        "tools": f"{node.tools:,}",
        "tokens": tokens(node.usage.tokens),
        "cost": dollars(node.usage.micro_usd),
        "time": _age(node, now_ms) if node.started_at else "-",
    }


def _age(node: Node, now_ms: int) -> str:
    return duration((node.ended_at or now_ms) - node.started_at)
