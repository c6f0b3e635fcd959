"""`callboard show` and `callboard tree`: a recorded session as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionOpened
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event, is_closed_after
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.cli.diagnose_command import emit_headline
from callboard.cli.errors import refuse_if
from callboard.cli.folding import Folding
from callboard.cli.formats import counted, duration, local, utc
from callboard.cli.message_summary import whole_prompt
from callboard.cli.options import full_option, json_option, log_flag, log_option, session_argument
from callboard.cli.outcomes import billed_text, ending, head_text, usage_json, usage_text
from callboard.cli.output import attributes, console_on, emit_json, emit_lines, fields, talk
from callboard.cli.recordings import open_recording
from callboard.cli.report_tables import emit_reports
from callboard.cli.rights_view import emit_rights
from callboard.cli.terminal_escape import indented, safe_line, safe_text
from callboard.cli.tree_view import Space, tree_lines, usage_of
from callboard.replay.billing import billing
from callboard.replay.failures import Failure, Failures
from callboard.replay.lineage import Branch
from callboard.replay.recording import Recording
from callboard.replay.titles import title_in
from callboard.runtime.log.tree import Node, Tree

_FAILURES_SHOWN = 40  # that differ
_FORKS_SHOWN = 8


class Turn(NamedTuple):
    """An ask and its end, if it has one. seq, at: of its event."""

    seq: int
    at: int
    ask: Ask
    end: AskEnded | None = None
    ended_seq: int = 0
    ended_at: int = 0


@click.command("show")
@session_argument
@log_option
@json_option
def show(session: str, log: str, as_json: bool) -> None:
    """Sum a session up: prompts, outcomes, usage, head.

    The findings of `callboard diagnose` stand above it, on stderr, for sessions of up to 100,000 events.

    The digests are checked on the way. Keep the HEAD: with it, `callboard verify --head` proves later that
    nothing was cut off.

    \b
    Examples:
      callboard show
      callboard show 2026 --json | jq .usage.tokens
    """
    recording, row = open_recording(log, session)
    found = _overview(recording)
    if as_json:
        emit_json(_session_json(recording, row.title or found.title, found))
        return
    emit_headline(recording)
    emit_lines(fields(_facts(recording, found)))
    for number, turn in enumerate(found.turns, 1):
        below = found.failures.headline(turn.seq, turn.ended_seq or None)
        emit_lines([Text(), *fields(_turn_facts(number, turn, below))])
    _emit_failures(found.failures.found)
    name = recording.session_id + log_flag()
    talk(f"\nmore: callboard tree {name}; callboard events {name}; callboard replay {name}")


@click.command("tree")
@session_argument
@click.option("--at", type=int, metavar="N", help="As it was after event N.")
@click.option("--reports", is_flag=True, help="Show what every sub-agent reported, siblings side by side.")
@click.option("--actor", default="", metavar="A", help="With --reports: only around this agent.")
@full_option
@click.option("--permissions", is_flag=True, help="Show the rights of each agent, and who bounds them.")
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
    """Draw the tree of delegations, and how each agent ended.

    Turns, tools, tokens, cost and time are each agent's own; the last line has the sum. With 110 columns or
    more there is room for each agent's prompt, or the reason of its failure. With --reports each parent's
    sub-agents are the lines of a table, the fields of their reports its columns; `*` marks an outlier. With
    --actor only the tables of that agent's sub-agents, and of itself among its siblings, are shown. Of a
    session that is a fork or has forks, the other sessions stand above the tree.

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
    if facts := _lineage_facts(recording):
        emit_lines([*fields(facts), Text()])
    console = console_on()
    is_ascii = not console.encoding.lower().startswith("utf")
    emit_lines(tree_lines(grown, Space(console.width, 0, is_ascii), grown.last_at))


def _tree_json(recording: Recording, grown: Tree, at: int) -> dict[str, object]:
    host = grown.nodes.get(HOST)
    node = node_json(grown, host) if host else None
    return {"session": recording.session_id, "at": at, **_lineage_json(recording), "tree": node}


@dataclass
class _Overview:
    """A session as a whole. started, last: milliseconds since 1970, 0 if there is no event."""

    turns: list[Turn]
    host: str = ""
    model: str = ""
    fallback: tuple[str, ...] = ()
    started: int = 0
    last: int = 0
    is_closed: bool = False
    agents: int = 0
    tools: int = 0
    usage: Usage = ZERO
    tags: tuple[str, ...] = ()
    metadata: Json | None = None
    failures: Failures = field(default_factory=Failures)
    title: str = ""

    def take(self, event: Event) -> None:
        """Take the next event in."""
        self.last = event.at
        self.failures.add(event)
        self.tools += isinstance(event.body, CallTool)
        self.is_closed = is_closed_after(event.body, was_closed=self.is_closed)
        match event.body:
            case SessionOpened(host=host, model=model):
                self.host, self.model, self.started = host, model.name, event.at
                self.fallback = tuple(one.name for one in model.fallback)
                self.tags, self.metadata = event.body.tags, event.body.metadata
            case Ask() as ask:
                self.title = self.title or title_in(event)
                self.turns.append(Turn(event.seq, event.at, ask))
            case AskEnded() as end if self.turns:
                self.turns[-1] = self.turns[-1]._replace(end=end, ended_seq=event.seq, ended_at=event.at)
            case _:
                pass


def _overview(recording: Recording) -> _Overview:
    """Read a session once; digests are checked on the way."""
    found, grown = _Overview([]), Tree()
    for event in recording.events:
        found.take(event)
        grown.add(event)
    found.agents = len(grown.nodes)
    found.usage = usage_of(list(grown.walk()))
    return found


def _facts(recording: Recording, found: _Overview) -> dict[str, str]:
    took = duration(found.last - found.started)
    return {
        "session": recording.session_id,
        "started": f"{local(found.started)}, {took}" if found.last else "not yet",
        "state": "closed" if found.is_closed else "open: it still runs, or its process ended",
        "host": found.host,
        "model": ", then ".join((found.model, *found.fallback)),
        **_labels(found),
        "agents": f"{counted(found.agents, 'agent')}, {counted(found.tools, 'tool call')}",
        "usage": usage_text(found.usage),
        **_lineage_facts(recording),
        "events": f"{recording.head.seq:,}",
        "head": _head(recording),
    }


def _labels(found: _Overview) -> dict[str, str]:
    """Return the lines for tags and metadata, if there are some."""
    lines = {"tags": ", ".join(map(safe_line, found.tags))} if found.tags else {}
    if found.metadata not in (None, NULL):
        lines["metadata"] = safe_line(bytes(found.metadata).decode(), 2_000)
    return lines


def _lineage_facts(recording: Recording) -> dict[str, str]:
    """Return the lines for the origins of a session, for its cost, and for its forks."""
    found = recording.lineage()
    lines = {}
    if found.origins:
        lines["fork of"] = ", a fork of ".join(f"{one.session_id}#{one.seq}" for one in found.origins)
        lines["billed"] = billed_text(billing(recording.events))
    if found.forks:
        lines["forks"] = _names(found.forks)
    return lines


def _names(forks: Sequence[Branch]) -> str:
    named = [f"{one.session_id} (from #{one.seq})" for one in forks[:_FORKS_SHOWN]]
    more = len(forks) - len(named)
    return ", ".join(named) + (f", and {more:,} more" if more else "")


def _lineage_json(recording: Recording) -> dict[str, object]:
    found = recording.lineage()
    return {
        "origins": [{"session": one.session_id, "seq": one.seq} for one in found.origins],
        "forks": [{"session": one.session_id, "seq": one.seq} for one in found.forks],
    }


def _head(recording: Recording) -> str:
    return head_text((recording.head.seq, recording.head.digest.hex()))


def _emit_failures(failures: list[Failure]) -> None:
    """Print each failure, and those that are the same but for their agents and calls once."""
    if not failures:
        return
    same: dict[tuple[str, ...], list[Failure]] = {}
    for each in failures:
        same.setdefault((each.kind, each.name, each.why, each.trace), []).append(each)
    groups = list(same.values())
    left = sum(map(len, groups[_FAILURES_SHOWN:]))
    emit_lines([Text(), Text(f"{counted(len(failures), 'failure')} below", style="bold")])
    for group in groups[:_FAILURES_SHOWN]:
        _emit_failure(group[0], len(group) - 1)
    if left:
        emit_lines([Text(f"… {left:,} more failures; --json lists them", style="dim")])


def _emit_failure(failure: Failure, more: int) -> None:
    place = f", {failure.place}" if failure.place else ""
    head = f"event {failure.seq}{place}: {failure.address or 'nobody'}: {failure.name}: {failure.why}"
    again = f" ({more:,} more like this)" if more else ""
    emit_lines([Text(safe_line(head, 1_000) + again)])
    if failure.trace:
        emit_lines([Text(indented(failure.trace), style="dim")])


def _failure_json(failure: Failure) -> dict[str, object]:
    return attributes(failure, *failure._fields)


def _turn_facts(number: int, turn: Turn, below: str) -> dict[str, str]:
    found = {f"ask {number}": whole_prompt(turn.ask.prompt)}
    if (end := turn.end) is None:
        return found | {"outcome": "none yet"}
    is_report = end.kind == "reported"
    result = msgspec.json.format(bytes(end.value), indent=2).decode() if is_report else end.text
    took = duration(turn.ended_at - turn.at)
    found["outcome"] = f"{ending(end.kind, end.detail)}, after {took}" + (
        f"; below it {below}" if below else ""
    )
    found["result" if STATUS[end.kind] == "ok" else "partial"] = safe_text(result)
    return found


def _session_json(recording: Recording, title: str, found: _Overview) -> dict[str, object]:
    return {
        "session": recording.session_id,
        "title": title,
        "started": _utc(found.started),
        "last": _utc(found.last),
        **attributes(found, "is_closed", "host", "model", "fallback", "agents", "tools", "tags", "metadata"),
        "usage": usage_json(found.usage),
        **_lineage_json(recording),
        "events": recording.head.seq,
        "head": _head(recording),
        "failures": list(map(_failure_json, found.failures.found)),
        "asks": [_turn_json(turn) for turn in found.turns],
    }


def _utc(at_ms: int) -> str | None:
    return utc(at_ms) if at_ms else None


def _turn_json(turn: Turn) -> dict[str, object]:
    end = turn.end
    return {
        "seq": turn.seq,
        "request_id": turn.ask.request_id,
        "at": utc(turn.at),
        "prompt": turn.ask.prompt,
        "schema": turn.ask.schema,
        "ended": end
        and {
            "seq": turn.ended_seq,
            "at": utc(turn.ended_at),
            "status": STATUS[end.kind],
            **attributes(end, "kind", "detail", "text"),
            "structured_output": end.value,
            "usage": usage_json(end.usage),
        },
    }


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
        "started": _utc(node.started_at),
        "ended": _utc(node.ended_at),
        "children": [node_json(grown, grown.nodes[child]) for child in node.children],
    }
