"""`callboard show` and `callboard tree`: a recorded session as a whole."""

from dataclasses import dataclass
from typing import NamedTuple

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Ask, AskEnded, CallTool, SessionClosed, SessionOpened
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.cli.formats import counted, duration, local, utc
from callboard.cli.message_summary import whole_prompt
from callboard.cli.options import Command, json_option, log_flag, log_option, session_argument
from callboard.cli.outcomes import ending, head_text, usage_json, usage_text
from callboard.cli.output import console_on, emit_json, emit_lines, fields, talk
from callboard.cli.recordings import open_recording
from callboard.cli.terminal_escape import safe_text
from callboard.cli.tree_view import Space, tree_lines, usage_of
from callboard.replay.recording import Recording
from callboard.replay.tree import Node, Tree


class Turn(NamedTuple):
    """An ask and its end, if it has one."""

    asked: Event
    ended: Event | None


@click.command("show", cls=Command)
@session_argument
@log_option
@json_option
def show(session: str, log: str, as_json: bool) -> None:
    """Sum a session up: prompts, outcomes, usage, head.

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
        emit_json(_session_json(recording, row.title, found))
        return
    emit_lines(fields(_facts(recording, found)))
    for number, turn in enumerate(found.turns, 1):
        emit_lines([Text(), *fields(_turn_facts(number, turn))])
    name = recording.session_id + log_flag()
    talk(f"\nmore: callboard tree {name}; callboard events {name}; callboard replay {name}")


@click.command("tree", cls=Command)
@session_argument
@click.option("--at", type=int, metavar="N", help="As it was after event N.")
@log_option
@json_option
def tree(session: str, at: int | None, log: str, as_json: bool) -> None:
    """Draw the tree of delegations, and how each agent ended.

    Turns, tools, tokens, cost and time are each agent's own; the last line has the sum. With 110 columns or
    more there is room for each agent's prompt, or the reason of its failure.

    \b
    Examples:
      callboard tree
      callboard tree 2026 --at 40
      callboard tree --json | jq '.. | select(.status? == "failed") | .address'
    """
    recording, _ = open_recording(log, session)
    grown = recording.tree(at)
    if as_json:
        host = grown.nodes.get(HOST)
        upto = recording.head.seq if at is None else at
        node = _node_json(grown, host) if host else None
        emit_json({"session": recording.session_id, "at": upto, "tree": node})
        return
    console = console_on()
    is_ascii = not console.encoding.lower().startswith("utf")
    emit_lines(tree_lines(grown, Space(console.width, 0, is_ascii), grown.last_at))


@dataclass
class _Overview:
    """A session as a whole. started, last: milliseconds since 1970, 0 if there is no event."""

    turns: list[Turn]
    host: str = ""
    model: str = ""
    started: int = 0
    last: int = 0
    is_closed: bool = False
    agents: int = 0
    tools: int = 0
    usage: Usage = ZERO

    def take(self, event: Event) -> None:
        """Take the next event in."""
        self.started = self.started or event.at
        self.last = event.at
        match event.body:
            case SessionOpened(host=host, model=model) if not self.host:
                self.host, self.model = host, model.name
            case Ask():
                self.turns.append(Turn(event, None))
            case AskEnded() if self.turns and self.turns[-1].ended is None:
                self.turns[-1] = Turn(self.turns[-1].asked, event)
            case CallTool():
                self.tools += 1
            case SessionClosed():
                self.is_closed = True
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
        "model": found.model,
        "agents": f"{counted(found.agents, 'agent')}, {counted(found.tools, 'tool call')}",
        "usage": usage_text(found.usage),
        "events": f"{recording.head.seq:,}",
        "head": _head(recording),
    }


def _head(recording: Recording) -> str:
    return head_text((recording.head.seq, recording.head.digest.hex()))


def _turn_facts(number: int, turn: Turn) -> dict[str, str]:
    assert isinstance(turn.asked.body, Ask)
    asked = whole_prompt(turn.asked.body.prompt)
    if turn.ended is None:
        return {f"ask {number}": asked, "outcome": "none yet"}
    assert isinstance(turn.ended.body, AskEnded)
    body = turn.ended.body
    result = (
        msgspec.json.format(bytes(body.value), indent=2).decode() if body.kind == "reported" else body.text
    )
    took = duration(turn.ended.at - turn.asked.at)
    return {
        f"ask {number}": asked,
        "outcome": f"{ending(body.kind, body.detail)}, after {took}",
        "result" if STATUS[body.kind] == "ok" else "partial": safe_text(result),
    }


def _session_json(recording: Recording, title: str, found: _Overview) -> dict[str, object]:
    return {
        "session": recording.session_id,
        "title": title,
        "started": utc(found.started) if found.last else None,
        "last": utc(found.last) if found.last else None,
        "is_closed": found.is_closed,
        "host": found.host,
        "model": found.model,
        "agents": found.agents,
        "tools": found.tools,
        "usage": usage_json(found.usage),
        "events": recording.head.seq,
        "head": _head(recording),
        "asks": [_turn_json(turn) for turn in found.turns],
    }


def _turn_json(turn: Turn) -> dict[str, object]:
    assert isinstance(turn.asked.body, Ask)
    found: dict[str, object] = {
        "seq": turn.asked.seq,
        "request_id": turn.asked.body.request_id,
        "at": utc(turn.asked.at),
        "prompt": turn.asked.body.prompt,
        "schema": turn.asked.body.schema,
        "ended": None,
    }
    if turn.ended is not None:
        assert isinstance(turn.ended.body, AskEnded)
        body = turn.ended.body
        found["ended"] = {
            "seq": turn.ended.seq,
            "at": utc(turn.ended.at),
            "status": STATUS[body.kind],
            "kind": body.kind,
            "detail": body.detail,
            "text": body.text,
            "structured_output": body.value,
            "usage": usage_json(body.usage),
        }
    return found


def _node_json(grown: Tree, node: Node) -> dict[str, object]:
    return {
        "address": node.address,
        "agent": node.profile,
        "prompt": node.prompt,
        "status": node.status,
        "state": node.state,
        "kind": node.kind or None,
        "detail": node.detail,
        "turns": node.turns,
        "tools": node.tools,
        "retries": node.retries,
        "reports": node.reports,
        "usage": usage_json(node.usage),
        "usage_with_children": usage_json(grown.usage_of(node.address)),
        "started": utc(node.started_at) if node.started_at else None,
        "ended": utc(node.ended_at) if node.ended_at else None,
        "children": [_node_json(grown, grown.nodes[child]) for child in node.children],
    }
