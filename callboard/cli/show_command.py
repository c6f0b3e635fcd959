"""`callboard show` and `callboard tree`: a recorded session as a whole."""

from collections.abc import Iterator
from typing import NamedTuple

import click
import msgspec
from rich.text import Text

from callboard.actors.protocol.addresses import HOST
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Ask, AskEnded, CallTool, SessionClosed, SessionOpened
from callboard.actors.protocol.usage import Usage
from callboard.cli.formats import counted, duration, local, utc
from callboard.cli.message_summary import whole_prompt
from callboard.cli.options import Command, json_option, log_flag, log_option, session_argument
from callboard.cli.outcomes import ending, head_text, usage_json, usage_text
from callboard.cli.output import console_on, emit_json, emit_lines, fields, talk
from callboard.cli.recordings import check_seq, open_recording
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

    The digests are checked on the way. The HEAD is what to keep if you want to prove later that nothing
    was cut off: `callboard verify --head`.

    \b
    Examples:
      callboard show
      callboard show 2026 --json | jq .usage.tokens
    """
    recording, row = open_recording(log, session)
    if as_json:
        emit_json(_session_json(recording, row.title))
        return
    emit_lines(fields(_facts(recording)))
    for number, turn in enumerate(turns(recording.events), 1):
        emit_lines([Text(), *fields(_turn_facts(number, turn))])
    name = recording.session_id + log_flag()
    talk(f"\nmore: callboard tree {name}; callboard events {name}; callboard replay {name}")


@click.command("tree", cls=Command)
@session_argument
@click.option("--at", type=int, metavar="N", help="As it was after event N.")
@log_option
@json_option
def tree(session: str, at: int | None, log: str, as_json: bool) -> None:
    """Draw who delegated to whom, and how each agent ended.

    Turns, tools, tokens, cost and time are each agent's own; the last line has the sum. With 110 columns or
    more there is room for what each was asked, or why it failed.

    \b
    Examples:
      callboard tree
      callboard tree 2026 --at 40
      callboard tree --json | jq '.. | select(.status? == "failed") | .address'
    """
    recording, _ = open_recording(log, session)
    events = recording.events
    upto = len(events) if at is None else check_seq(events, at, recording.session_id)
    grown = Tree()
    for event in events[:upto]:
        grown.add(event)
    if as_json:
        host = grown.nodes.get(HOST)
        emit_json(
            {"session": recording.session_id, "at": upto, "tree": _node_json(grown, host) if host else None}
        )
        return
    console = console_on()
    is_ascii = not console.encoding.lower().startswith("utf")
    emit_lines(tree_lines(grown, Space(console.width, 0, is_ascii), grown.last_at))


def turns(events: list[Event]) -> Iterator[Turn]:
    """The asks of a session, in order."""
    asked: Event | None = None
    for event in events:
        if isinstance(event.body, Ask):
            if asked is not None:
                yield Turn(asked, None)
            asked = event
        elif isinstance(event.body, AskEnded) and asked is not None:
            yield Turn(asked, event)
            asked = None
    if asked is not None:
        yield Turn(asked, None)


class _Overview(NamedTuple):
    """What a session is as a whole. started, last: milliseconds since 1970, 0 if there is no event."""

    host: str
    model: str
    started: int
    last: int
    is_closed: bool
    agents: int
    tools: int
    usage: Usage
    head: str


def _overview(recording: Recording) -> _Overview:
    events, grown = recording.events, recording.tree()
    opened = next((event.body for event in events if isinstance(event.body, SessionOpened)), None)
    return _Overview(
        host=opened.host if opened else "",
        model=opened.model.name if opened else "",
        started=events[0].at if events else 0,
        last=events[-1].at if events else 0,
        is_closed=any(isinstance(event.body, SessionClosed) for event in events),
        agents=len(grown.nodes),
        tools=sum(isinstance(event.body, CallTool) for event in events),
        usage=usage_of(list(grown.walk())),
        head=head_text((recording.head.seq, recording.head.digest.hex())),
    )


def _facts(recording: Recording) -> dict[str, str]:
    found = _overview(recording)
    return {
        "session": recording.session_id,
        "started": f"{local(found.started)}, {duration(found.last - found.started)}"
        if found.last
        else "not yet",
        "state": "closed" if found.is_closed else "open: it still runs, or its process ended",
        "host": found.host,
        "model": found.model,
        "agents": f"{counted(found.agents, 'agent')}, {counted(found.tools, 'tool call')}",
        "usage": usage_text(found.usage),
        "events": f"{len(recording.events):,}",
        "head": found.head,
    }


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


def _session_json(recording: Recording, title: str) -> dict[str, object]:
    found = _overview(recording)
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
        "events": len(recording.events),
        "head": found.head,
        "asks": [_turn_json(turn) for turn in turns(recording.events)],
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
