"""A recorded session as a whole: its prompts, outcomes, usage and head."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from rich.text import Text

from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, SessionOpened
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event, is_closed_after
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.usage import ZERO, Usage
from callboard.cli.diagnose_command import emit_headline
from callboard.cli.options import log_flag
from callboard.cli.outcomes import billed_text, ending, head_text, usage_json, usage_text
from callboard.cli.output import attributes, broken, emit_json, emit_lines, fields, talk
from callboard.cli.terminal_escape import indented, safe_line, safe_text
from callboard.cli.tree_view import usage_of
from callboard.replay.forks import Branch, billing, changed_place
from callboard.replay.formats import counted, duration, local, utc, whole_prompt
from callboard.replay.reading import title_in
from callboard.replay.recording import Recording
from callboard.replay.reports import Failure, Failures
from callboard.runtime.clock import now_ms
from callboard.runtime.log.tree import Tree

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


def emit_summary(recording: Recording, title: str, *, is_full: bool, as_json: bool) -> None:
    """Print a session as a whole, its findings above it on stderr. title: of its row; '' for none.

    Every digest is checked on the way.
    """
    found = _overview(recording)
    if as_json:
        emit_json(_session_json(recording, title or found.title, found))
        return
    emit_headline(recording)
    emit_lines(fields(_facts(recording, found)))
    for number, turn in enumerate(found.turns, 1):
        below = found.failures.headline(turn.seq, turn.ended_seq or None)
        emit_lines([Text(), *fields(_turn_facts(number, turn, below, found.imported))])
    _emit_failures(found.failures.found, len(found.failures.found) if is_full else _FAILURES_SHOWN)
    name = recording.session_id + log_flag()
    talk(f"\nmore: callboard tree {name}; callboard events {name}, with --step event by event")


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
    imported: str = ""
    agents: int = 0
    questions: int = 0
    tools: int = 0
    usage: Usage = ZERO
    tags: tuple[str, ...] = ()
    metadata: Json | None = None
    failures: Failures = field(default_factory=Failures)
    title: str = ""

    def take(self, event: Event) -> None:
        """Add the next event."""
        self.last = event.at
        self.failures.add(event)
        self.tools += isinstance(event.body, CallTool)
        self.is_closed = is_closed_after(event.body, was_closed=self.is_closed)
        match event.body:
            case SessionOpened(host=host, model=model):
                self.host, self.model, self.started = host, model.name, event.at
                self.fallback = tuple(one.name for one in model.fallback)
                self.tags, self.metadata = event.body.tags, event.body.metadata
                self.imported = event.body.imported
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
    folded = grown.folded()
    found.agents, found.questions = len(folded), sum(node.questions for _, node in folded)
    found.usage = usage_of(folded)
    return found


def _state(found: _Overview) -> str:
    if found.imported:
        return f"imported ({found.imported}): it cannot be resumed, but forked"
    if found.is_closed:
        return "closed"
    is_asked = found.turns and found.turns[-1].end is None
    since = duration(max(0, now_ms() - found.last))
    unfinished = f"open: its ask still runs, or its process ended; the last event was {since} ago"
    return unfinished if is_asked else "open: no ask is running"


def _facts(recording: Recording, found: _Overview) -> dict[str, str]:
    took = duration(found.last - found.started)
    return {
        "session": recording.session_id,
        "started": f"{local(found.started)}, {took}" if found.last else "not yet",
        "state": _state(found),
        "host": found.host,
        "model": ", then ".join((found.model, *found.fallback)),
        **_labels(found),
        "agents": _agents(found),
        "usage": usage_text(found.usage),
        **lineage_facts(recording),
        "events": f"{recording.head.seq:,}",
        "head": _head(recording),
    }


def _agents(found: _Overview) -> str:
    asked = f", {counted(found.questions, 'question')} to models" if found.questions else ""
    return f"{counted(found.agents, 'agent')}, {counted(found.tools, 'tool call')}{asked}"


def _labels(found: _Overview) -> dict[str, str]:
    """Return the lines for tags and metadata, if there are some."""
    lines = {"tags": ", ".join(map(safe_line, found.tags))} if found.tags else {}
    if found.metadata not in (None, NULL):
        lines["metadata"] = safe_line(bytes(found.metadata).decode(), 2_000)
    return lines


def lineage_facts(recording: Recording) -> dict[str, str]:
    """Return the lines for the origins of a session, for its cost, and for its forks."""
    found = recording.lineage()
    lines = {}
    if found.origins:
        lines["fork of"] = ", a fork of ".join(f"{one.session_id}#{one.seq}" for one in found.origins)
        if changed := _changed(recording):
            lines["changed"] = changed
        lines["billed"] = billed_text(billing(recording.events))
    if found.forks:
        lines["forks"] = _names(found.forks)
    return lines


def _changed(recording: Recording) -> str:
    """Name the answers and inputs that the session and its origins have changed, each with its event."""
    found = [
        f"{changed_place(one)} (event {event.seq})"
        for event in recording.events
        if isinstance(event.body, Forked)
        for one in event.body.changes
    ]
    more = len(found) - _FORKS_SHOWN
    return ", ".join(found[:_FORKS_SHOWN]) + (f", and {more:,} more" if more > 0 else "")


def _names(forks: Sequence[Branch]) -> str:
    named = [f"{one.session_id} (from #{one.seq})" for one in forks[:_FORKS_SHOWN]]
    more = len(forks) - len(named)
    return ", ".join(named) + (f", and {more:,} more" if more else "")


def lineage_json(recording: Recording) -> dict[str, object]:
    """Return the origins and the forks of a session."""
    found = recording.lineage()
    return {
        "origins": [{"session": one.session_id, "seq": one.seq} for one in found.origins],
        "forks": [{"session": one.session_id, "seq": one.seq} for one in found.forks],
    }


def _head(recording: Recording) -> str:
    return head_text((recording.head.seq, recording.head.digest.hex()))


def _emit_failures(failures: list[Failure], most: int) -> None:
    """Print up to so many failures. Those that are the same but for their agents and calls are one."""
    if not failures:
        return
    same: dict[tuple[str, ...], list[Failure]] = {}
    for each in failures:
        same.setdefault((each.kind, each.name, each.why, each.trace), []).append(each)
    groups = list(same.values())
    left = sum(map(len, groups[most:]))
    emit_lines([Text(), Text(f"{counted(len(failures), 'failure')} below", style="bold")])
    for group in groups[:most]:
        _emit_failure(group[0], len(group) - 1)
    if left:
        emit_lines([Text(f"… {left:,} more failures; --full lists them", style="dim")])


def _emit_failure(failure: Failure, more: int) -> None:
    head = f"event {failure.seq}, {_whose(failure)}: {failure.name}: {failure.why}"
    again = f" ({more:,} more like this)" if more else ""
    said = broken(safe_line(head, 1_000) + again)
    emit_lines([Text(line) for line in said.split("\n")])
    if failure.trace:
        emit_lines([Text(indented(failure.trace), style="dim")])


def _whose(failure: Failure) -> str:
    """Return the name of a call; for a delegation with its sub-agent, which that does not tell."""
    place = failure.place or failure.address
    is_told = failure.kind != "delegation" or failure.address in ("", place)
    return place if is_told else f"{place} to {failure.address}"


def _failure_json(failure: Failure) -> dict[str, object]:
    return attributes(failure, *failure._fields)


def _turn_facts(number: int, turn: Turn, below: str, imported: str) -> dict[str, str]:
    found = {f"ask {number}": whole_prompt(turn.ask.prompt)}
    if (end := turn.end) is None:
        return found | {"outcome": "none: its recording ends before" if imported else "none yet"}
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
        "started": utc_or_none(found.started),
        "last": utc_or_none(found.last),
        **attributes(found, "is_closed", "host", "model", "fallback", "agents", "questions", "tools", "tags"),
        **attributes(found, "metadata"),
        "usage": usage_json(found.usage),
        **lineage_json(recording),
        "events": recording.head.seq,
        "head": _head(recording),
        "failures": list(map(_failure_json, found.failures.found)),
        "asks": [_turn_json(turn) for turn in found.turns],
    }


def utc_or_none(at_ms: int) -> str | None:
    """Return a moment as text. at_ms: milliseconds since 1970, 0 for one that has not come."""
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
