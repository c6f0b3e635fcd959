"""`callboard tree`: the tree of delegations, the tables of reports, the rights and labels of each agent."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import HOST, depth_of
from callboard.cli.diagnose_command import emit_headline
from callboard.cli.errors import not_found, refuse_if
from callboard.cli.folding import Folding
from callboard.cli.options import full_option, json_option, log_option, session_argument
from callboard.cli.outcomes import usage_json
from callboard.cli.output import (
    WIDE,
    attributes,
    console_on,
    emit,
    emit_json,
    emit_lines,
    fields,
    table,
    width_of_stdout,
)
from callboard.cli.recordings import open_recording
from callboard.cli.summary_view import lineage_facts, lineage_json, utc_or_none
from callboard.cli.terminal_escape import safe_line
from callboard.cli.tree_view import Space, tree_lines
from callboard.replay.recording import Recording
from callboard.replay.reports import Report, Siblings, sibling_reports
from callboard.replay.rights import AgentRights, Denial
from callboard.runtime.log.tree import Node, Tree

_CELL_CHARS = 40
_CELL_MIN = 8
_TEXT_CHARS = 400
_FIRST_ROWS = 40
_LAST_ROWS = 10


@click.command("tree")
@session_argument
@click.option("--at", type=int, metavar="N", help="As it was after event N.")
@click.option("--reports", is_flag=True, help="Show what every sub-agent reported, siblings side by side.")
@click.option("--actor", default="", metavar="A", help="With --reports: only around this agent.")
@full_option
@click.option(
    "--permissions", is_flag=True, help="Show the rights of each agent, and which bundles limit them."
)
@click.option("--labels", is_flag=True, help="Show the labels of each agent, and where they came from.")
@log_option
@json_option
def tree(
    session: str,
    at: int | None,
    reports: bool,
    actor: str,
    full: bool,
    permissions: bool,
    labels: bool,
    log: str,
    as_json: bool,
) -> None:
    """Draw the tree of delegations and how each agent ended.

    Turns, tools, tokens, cost and time are those of each agent without its sub-agents; the last line has the
    sum. The questions of a program to a model count as its turns once they are answered; with --full, each
    has a line. With 110 columns or more there is room for each agent's prompt, or the reason for its failure.
    With --reports, the sub-agents of each parent are the rows of a table, whose columns are the fields of
    their reports; `*` marks an outlier. With --actor, only the table of that agent's sub-agents and the table
    in which the agent itself appears are shown. If the session is a fork or has forks, those sessions are
    listed above the tree.

    \b
    Examples:
      callboard tree
      callboard tree --reports --actor host.7
      callboard tree 2026 --at 40
      callboard tree --permissions
      callboard tree --json | jq '.. | select(.status? == "failed") | .address'
    """
    refuse_if(
        bool(actor) and not reports, "--actor is for --reports; `callboard events --actor` lists events"
    )
    recording, _ = open_recording(log, session)
    if reports:
        emit_reports(recording, at, Folding(is_full=full), actor=actor, as_json=as_json)
        return
    if permissions or labels:
        emit_rights(recording, at, shows_labels=labels, as_json=as_json)
        return
    grown = recording.tree(at)
    if as_json:
        emit_json(_tree_json(recording, grown, recording.head.seq if at is None else at))
        return
    emit_headline(recording)
    if facts := lineage_facts(recording):
        emit_lines([*fields(facts), Text()])
    console = console_on()
    is_ascii = not console.encoding.lower().startswith("utf")
    emit_lines(tree_lines(grown, Space(console.width, 0, is_ascii), grown.last_at, is_full=full))


def _tree_json(recording: Recording, grown: Tree, at: int) -> dict[str, object]:
    host = grown.nodes.get(HOST)
    node = node_json(grown, host) if host else None
    return {"session": recording.session_id, "at": at, **lineage_json(recording), "tree": node}


def node_json(grown: Tree, node: Node) -> dict[str, object]:
    """Return an agent and those under it as JSON."""
    task = ("prompt", "description", "status", "state", "kind", "detail")
    own = (*task, "turns", "tools", "retries", "reports")
    return {
        "address": node.address,
        "agent": node.profile,
        **attributes(node, *own),
        "kind": node.kind or None,
        "usage": usage_json(node.usage),
        "usage_with_children": usage_json(grown.usage_of(node.address)),
        "compactions": list(node.compactions),
        "started": utc_or_none(node.started_at),
        "ended": utc_or_none(node.ended_at),
        "children": [node_json(grown, grown.nodes[child]) for child in node.children],
    }


def emit_reports(
    recording: Recording, at: int | None, fold: Folding, *, actor: str = "", as_json: bool
) -> None:
    """Print one table for the sub-agents of each parent and profile.

    actor: only the tables of its own sub-agents and of its siblings; '' for all. Raises Failure for an agent
    without any.
    """
    upto = recording.head.seq if at is None else recording.event(at).seq
    found = sibling_reports(recording.events.upto(upto))
    if actor:
        found = [siblings for siblings in found if siblings.is_around(actor)]
        if not found:
            raise not_found(f"no delegation of or by {actor} has ended; `callboard tree` lists the agents")
    odd = {finding.seq for finding in recording.diagnose() if finding.kind == "outlier"}
    if as_json:
        shown = [_json(siblings, odd) for siblings in found]
        emit_json({"session": recording.session_id, "at": upto, "siblings": shown})
        return
    if not found:
        emit("no delegation has ended")
    for siblings in found:
        _emit_siblings(siblings, odd, fold)
    fold.say()


def _emit_siblings(siblings: Siblings, odd: Container[int], fold: Folding) -> None:
    heading, *rows = _table(siblings, odd, width_of_stdout(), fold)
    title = Text(f"\n{siblings.parent} → {safe_line(siblings.profile, 80)}", style="bold")
    emit_lines([title, heading, *fold.lines(rows, _FIRST_ROWS, _LAST_ROWS)], is_whole=fold.is_full)


def _table(siblings: Siblings, odd: Container[int], width: int, fold: Folding) -> Sequence[Text]:
    columns = siblings.columns
    share = max(_CELL_MIN, (width - 30) // max(1, len(columns)) - 2)
    longest = min(_TEXT_CHARS if len(columns) == 1 else _CELL_CHARS, share)
    longest = _TEXT_CHARS if width == WIDE else longest

    def cell(value: object) -> str:
        return fold.line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), longest)

    rows = [_row(report, columns, cell, is_odd=report.seq in odd) for report in siblings.reports]
    headings = ("EVENT", "AGENT", "END", *(safe_line(path, longest) or "TEXT" for path in columns))
    lines = table(rows, headings, right=(0,))
    for line, report in zip(lines[1:], siblings.reports, strict=True):
        line.stylize("yellow" if report.seq in odd else "")
    return lines


def _row(
    report: Report, columns: Sequence[str], cell: Callable[[object], str], *, is_odd: bool
) -> tuple[str, ...]:
    mark = "*" if is_odd else ""
    cells = (cell(report.values[path]) if path in report.values else "" for path in columns)
    return (f"{report.seq}", f"{report.address or '-'}{mark}", report.kind, *cells)


def _json(siblings: Siblings, odd: Container[int]) -> dict[str, object]:
    return {
        "parent": siblings.parent,
        "agent": siblings.profile,
        "reports": [
            {
                "seq": report.seq,
                "address": report.address,
                "kind": report.kind,
                "outlier": report.seq in odd,
                "values": report.values,
            }
            for report in siblings.reports
        ],
    }


def emit_rights(recording: Recording, at: int | None, *, shows_labels: bool, as_json: bool) -> None:
    """Write the rights, or the labels, of every agent. at: the last event to read, None for all."""
    found = recording.rights(at)
    if as_json:
        shown = _labels_json if shows_labels else _rights_json
        upto = recording.head.seq if at is None else at
        agents = [shown(agent) for agent in found.values()]
        emit_json({"session": recording.session_id, "at": upto, "agents": agents})
        return
    emit_headline(recording)
    emit_lines([*_lines(found, shows_labels=shows_labels)])


def _lines(found: Mapping[str, AgentRights], *, shows_labels: bool) -> Iterator[Text]:
    for agent in sorted(found.values(), key=lambda one: [int(part) for part in one.address.split(".")[1:]]):
        indent = "   " * depth_of(agent.address)
        yield Text(f"{indent}{agent.address} {safe_line(agent.profile, 64)}", style="bold")
        for line in _label_lines(agent) if shows_labels else _right_lines(agent):
            yield Text(f"{indent}   {safe_line(line, 300)}")


def _right_lines(agent: AgentRights) -> Iterator[str]:
    if not agent.layers:
        yield "everything: no bundle bounds it"
    for entry in agent.entries:
        yield f"{entry.entry}: {', '.join(entry.names) or 'none'} (by {', '.join(entry.by)})"
    for denial in agent.denials:
        after = f" once {denial.label} was read" if denial.label else ""
        yield f"{denial.entry}: not {denial.name}{after} (by {denial.by})"
    for denial in agent.narrowed:
        yield f"{denial.entry}: asks for {denial.name}, narrowed (by {denial.by or 'the bundles above'})"


def _label_lines(agent: AgentRights) -> Iterator[str]:
    if not agent.labels:
        yield "no labels"
    for label in agent.labels:
        yield f"{label.label} (event {label.seq}: {label.how})"


def _denial_json(denial: Denial) -> dict[str, object]:
    found: dict[str, object] = {"entry": denial.entry, "name": denial.name, "by": denial.by}
    return {**found, "label": denial.label} if denial.label else found


def _rights_json(agent: AgentRights) -> dict[str, object]:
    return {
        "address": agent.address,
        "profile": agent.profile,
        "allowed": {one.entry: {"names": one.names, "by": one.by} for one in agent.entries},
        "denied": [_denial_json(one) for one in agent.denials],
        "narrowed": [_denial_json(one) for one in agent.narrowed],
    }


def _labels_json(agent: AgentRights) -> dict[str, object]:
    labels = [{"label": one.label, "event": one.seq, "how": one.how} for one in agent.labels]
    return {"address": agent.address, "profile": agent.profile, "labels": labels}
