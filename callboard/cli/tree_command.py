"""`callboard tree`: the tree of delegations."""

import click
from rich.text import Text

from callboard.actors.protocol.addresses import HOST
from callboard.cli.diagnose_command import emit_headline
from callboard.cli.errors import refuse_if
from callboard.cli.folding import Folding
from callboard.cli.options import full_option, json_option, log_option, session_argument
from callboard.cli.outcomes import usage_json
from callboard.cli.output import attributes, console_on, emit_json, emit_lines, fields
from callboard.cli.recordings import open_recording
from callboard.cli.report_tables import emit_reports
from callboard.cli.rights_view import emit_rights
from callboard.cli.summary_view import lineage_facts, lineage_json, utc_or_none
from callboard.cli.tree_view import Space, tree_lines
from callboard.replay.recording import Recording
from callboard.runtime.log.tree import Node, Tree


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

    Turns, tools, tokens, cost and time are those of each agent itself; the last line has the sum. With 110
    columns or more there is room for each agent's prompt, or the reason for its failure. With --reports, the
    sub-agents of each parent are the lines of a table, whose columns are the fields of their reports; `*`
    marks an outlier. With --actor, only the table of that agent's sub-agents and the table in which the agent
    itself appears are shown. If the session is a fork or has forks, those sessions are listed above the tree.

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
    emit_lines(tree_lines(grown, Space(console.width, 0, is_ascii), grown.last_at))


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
        "started": utc_or_none(node.started_at),
        "ended": utc_or_none(node.ended_at),
        "children": [node_json(grown, grown.nodes[child]) for child in node.children],
    }
